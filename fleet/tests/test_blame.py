"""What blame names is what was planted, chance alone is not named, and one bottleneck is one answer."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import blame, findings, statistics
from tcpwhy_fleet.attributes import Attribute
from tcpwhy_fleet.outcomes import Items

from .recordings import Made
from .small_fleet import BARE, OPTIONS, accepted, connected, sampled


def items(bad: Sequence[bool]) -> Items:
    return Items("cases", "", [{"n": 1, "bad": int(b)} for b in bad])


def attribute(name: str, value: str, has: Sequence[bool]) -> Attribute:
    return Attribute(name, value, tuple(at for at, h in enumerate(has) if h))


def test_fisher_is_what_counting_gives() -> None:
    # Of 10 items 4 are bad; of 3 drawn at least 2: (C(4,2) C(6,1) + C(4,3)) / C(10,3).
    assert math.isclose(statistics.by_chance(2, 3, 4, 10), (6 * 6 + 4) / 120)
    assert statistics.by_chance(0, 3, 4, 10) == 1.0
    assert math.isclose(statistics.by_chance(3, 3, 4, 10), 4 / 120)
    assert statistics.by_chance(4, 3, 4, 10) == 0.0
    assert statistics.by_chance(100_000, 200_000, 300_000, 1_000_000) == pytest.approx(0.0)


def test_holm_corrects_for_many() -> None:
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([0.5, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("histogram", "first_of_upper"),
    [
        ([9, 5, 0, 0, 0, 0, 4, 20, 3], 4),
        ([1, 4, 9, 16, 20, 16, 9, 4, 1], None),
        # Near to each other: a gap that is no chance, and one that may be.
        ([9, 5, 0, 20], 2),
        ([3, 1, 0, 4], None),
        ([8, 97, 1, 6, 25, 61, 5], 2),
        ([30, 0, 0, 0, 0, 0, 1], None),
        ([], None),
        ([5], None),
    ],
)
def test_two_modes(histogram: list[int], first_of_upper: int | None) -> None:
    assert statistics.valley(histogram, 5, 3) == first_of_upper


@pytest.mark.parametrize("count", [20, 100, 250])
def test_one_mode_is_hardly_ever_two_near_ones(count: int) -> None:
    draw, found = random.Random(count), 0
    for n in range(400):
        steps = [math.floor(draw.gauss(30, (0.5, 1.5, 3.0, 4.5)[n % 4])) for _ in range(count)]
        histogram = [steps.count(step) for step in range(min(steps), max(steps) + 1)]
        found += statistics.valley(histogram, len(histogram), 3) is not None
    assert found <= 4


def test_chance_alone_separates_nothing() -> None:
    # 300 attributes that mean nothing: one in a hundred of them would look like a cause without correction.
    for seed in range(20):
        draw = random.Random(seed)
        bad = [draw.random() < 0.2 for _ in range(400)]
        noise = [attribute("a", str(n), [draw.random() < 0.3 for _ in bad]) for n in range(300)]
        assert blame.separate(items(bad), noise) == ([], 300, [at for at, is_bad in enumerate(bad) if is_bad])


def test_two_causes_are_two_answers_and_what_goes_along_is_no_third() -> None:
    draw = random.Random(3)
    one, other = [n % 20 == 0 for n in range(1000)], [n % 25 == 1 for n in range(1000)]
    bad = [a or b or draw.random() < 0.002 for a, b in zip(one, other, strict=True)]
    wider = [n % 5 in (0, 1) for n in range(1000)]
    noise = [attribute("noise", str(n), [draw.random() < 0.5 for _ in bad]) for n in range(50)]
    found, _, left = blame.separate(
        items(bad),
        [
            attribute("x", "1", one),
            attribute("y", "1", one),
            attribute("z", "1", other),
            attribute("w", "1", wider),
            *noise,
        ],
    )
    assert [(f.best.attribute, [s.attribute for s in f.same]) for f in found] == [("x", ["y"]), ("z", [])]
    assert found[0].best.precision == 1.0
    assert found[0].best.support == 50
    assert len(left) == sum(bad) - sum(a or b for a, b in zip(one, other, strict=True))


def mesh(at: Path, hosts: int, faulty: int, in_vain: int = 0) -> None:
    """Everybody sends to everybody; what goes to or from one host loses 3 %, and all may retransmit in vain."""
    for a in range(hosts):
        made = Made(f"h{a}")
        made.manifest["labels"] = [f"rack=r{a % 3}"]
        for b in range(hosts):
            if a == b:
                continue
            ends = (f"10.0.0.{a + 1}", 40000 + b), (f"10.0.0.{b + 1}", 7000)
            lost = 30 if faulty in (a, b) else (a + b) % 2
            for when, share in ((1.0, 0.0), (8.0, 1.0)):
                retransmitted, twice = round((lost + in_vain) * share), round(in_vain * share)
                sent = round(1000 * share)
                sampled(made, when, 100 + b, *ends, data_segs_out=sent, total_retrans=retransmitted, dsack_dups=twice)
        made.write(at)


def test_one_uplink_is_one_answer(tmp_path: Path) -> None:
    mesh(tmp_path, hosts=20, faulty=13)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (answer,) = blame.ask(fleet, "lossy")
    # 19 paths to it are known by its address: nobody listens there, and it sends from it as well.
    assert (answer.items, answer.bad, answer.left) == (380, 38, 0)
    assert [(f.best.attribute, f.best.value) for f in answer.separate] == [("host at an end", "h13")]
    assert (answer.separate[0].best.precision, answer.separate[0].best.recall) == (1.0, 1.0)
    assert "all 38 lossy paths have h13 at one end" in "\n".join(blame.lines(answer))


def test_a_finding_of_one_path_names_the_uplink_of_all(tmp_path: Path) -> None:
    mesh(tmp_path, hosts=20, faulty=13)
    teller = Made("h4", boot_id="boot-of-h4")
    (tmp_path / "h4.tcpwhy").rename(tmp_path / "h4")
    said = {"layer": "network", "confidence": "high", "counted": "segments", "affected": 30, "of": 1000}
    teller.row("finding", 1, finding=1, cause="path-loss", resource="path 10.0.0.5 → 10.0.0.14", role="client", **said)
    for b in (1, 13):
        sampled(teller, 1.0, b, (f"10.0.0.{5}", 40000 + b), (f"10.0.0.{b + 1}", 7000), data_segs_out=0)
    teller.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (found,) = findings.merged(fleet)
    assert (found.cause, found.shared_by) == ("path-loss", "h13")
    assert found.shared == "37 of the fleet's 37 lossy paths have h13 at one end"


@pytest.mark.parametrize("in_vain", [0, 40])
def test_nobody_is_blamed_for_a_healthy_mesh(tmp_path: Path, in_vain: int) -> None:
    mesh(tmp_path, hosts=8, faulty=99, in_vain=in_vain)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        answers = [answer for question in blame.QUESTIONS for answer in blame.ask(fleet, question)]
    assert [(a.bad, a.separate) for a in answers] == [(0, []), (0, []), (0, [])]


def test_cookies_at_short_backlogs_over_many_hosts(tmp_path: Path) -> None:
    """Case D: of four storage hosts two have a backlog of 5; most of their connections come of cookies and are slow."""
    clients = [Made(f"client{n}") for n in range(3)]
    for s in range(4):
        server, backlog = Made(f"store{s}"), 5 if s < 2 else 1024
        addr = f"10.0.9.{s + 1}"
        server.row("listener", 0.1, sock=1, family=4, local_addr=addr, local_port=7000, backlog=backlog)
        for n in range(60):
            client, ends = clients[n % 3], ((f"10.0.1.{n % 3 + 1}", 40000 + n), (addr, 7000))
            cookie = backlog == 5 and n >= 6
            options = BARE if cookie else OPTIONS
            sock = 1000 * (s + 1) + n
            connected(client, 1 + n / 1000, sock, *ends, took=0.05, **options)
            accepted(server, 1.051 + n / 1000, sock, ends[1], ends[0], cookie=cookie, **options)
            rate = (1_200_000 if cookie else 40_000_000) * (1 + n % 5 / 10)
            sampled(client, 4, sock, *ends, bytes_acked=round(rate), busy_us=1_000_000, notsent_bytes=9000, **options)
        server.write(tmp_path)
    for client in clients:
        client.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (answer,) = blame.ask(fleet, "slow")
        said = "\n".join(blame.lines(answer))
    assert (answer.items, answer.bad, answer.left) == (240, 108, 0)
    assert len(answer.separate) == 1
    same = {s.attribute for s in [answer.separate[0].best, *answer.separate[0].same]}
    assert {"made from a SYN cookie", "SACK", "window scaling"} <= same
    assert (
        "all 108 slow connections lack SACK, window scaling and timestamps, were made from SYN cookies"
        " and came to listeners with backlog 5"
    ) in said


def two_interfaces(at: Path) -> None:
    """store0 sends over two interfaces; what leaves by eth1 loses 3 %."""
    store = Made("store0")
    for n, addr in enumerate(("10.0.8.1", "10.0.9.1")):
        store.row("interface_address", 0.1, interface=f"eth{n}", addr=addr)
        for to in range(12):
            ends = (addr, 40000 + to), (f"10.0.{7 - n}.{to + 1}", 7000)
            for when, share in ((1.0, 0), (8.0, 1)):
                sampled(store, when, 100 * n + to + 1, *ends, data_segs_out=1000 * share, total_retrans=30 * n * share)
    store.write(at)


def test_an_interface_of_a_host_is_blamed(tmp_path: Path) -> None:
    two_interfaces(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (answer,) = blame.ask(fleet, "lossy")
        said = "\n".join(blame.lines(answer))
    assert [(f.best.attribute, f.best.value) for f in answer.separate] == [("interface of the sender", "eth1")]
    assert "eth1 of store0 at one end" in said, said


def test_a_cgroup_is_blamed_and_not_the_slice_above_it(tmp_path: Path) -> None:
    client, server = Made("client"), Made("server")
    paths = {3: "/system.slice/a.service", 4: "/system.slice/b.service", 5: "/batch.slice/job-7"}
    for cgroup, path in paths.items():
        client.row("cgroup", 0.1, cgroup=cgroup, path=path)
    server.row("listener", 0.1, sock=1, family=4, local_addr="10.0.0.9", local_port=80, backlog=128)
    for n in range(60):
        cgroup = 3 + n % 3
        ends = ("10.0.0.1", 40000 + n), ("10.0.0.9", 80)
        took = 1.2 if cgroup == 4 else 0.01
        sock = n + 10
        at = {"sock": sock, "family": 4, "local_addr": ends[0][0], "local_port": ends[0][1]}
        at |= {"remote_addr": ends[1][0], "remote_port": ends[1][1]}
        client.row("event", 1, kind="state", state="SYN_SENT", comm="app", cgroup=cgroup, **at)
        client.row("event", 1 + took, kind="state", state="ESTABLISHED", old_state="SYN_SENT", **at)
        accepted(server, 1 + took, sock, ends[1], ends[0])
    for made in (client, server):
        made.write(tmp_path)
    with tcpwhy_fleet.open(tmp_path) as fleet:
        (answer,) = blame.ask(fleet, "connects")
    (one,) = answer.separate
    assert (one.best.attribute, one.best.value) == ("cgroup of the client", "/system.slice/b.service")
    assert (one.best.bad, one.best.precision, one.best.recall) == (20, 1.0, 1.0)
    # All of them are below system.slice; that others are as well is said beside it, or not at all.
    assert all(s.value != "/system.slice" for s in one.same)
