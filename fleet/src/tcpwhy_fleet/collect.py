"""The same seconds on many hosts: over the system's ssh, which streams `tcpwhy record -o -`; or from where they are."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TypeVar

from . import hosts as host_file
from .catalog import LABELS, Say
from .hosts import Host
from .manifest import plain
from .store import Store
from .text import joined, milliseconds, plural, shown
from .unfit import UnfitError

T = TypeVar("T")
R = TypeVar("R")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# From the agreement to the start: reaching the slowest host and starting its recorder.
LEAD_S = 5.0
# Sessions of ssh that one machine opens.
SESSIONS_A_SECOND = 40
# Beyond the recording: its end, and what is left of the stream.
GRACE_S = 60.0
REACH_S = 20.0
CHUNK = 1 << 20
LONGEST_LINE = 4096
# Clocks that differ by less are kept by NTP well enough for logs to be read beside each other.
CLOCK_OFF_S = 0.1
# Hosts that a line names.
MOST_NAMED = 10
MOST_BYTES = 8 << 30
SSH_OPTIONS = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]


def seconds(text: str) -> float:
    """A length of time as tcpwhy takes it: 500ms, 30s, 10m."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not found or float(found[1]) <= 0:
        raise UnfitError(f"`{text}` is no length of time; one is 30s, 500ms, 10m")
    return float(found[1]) * UNITS[found[2]]


@dataclass(frozen=True)
class Plan:
    """What is recorded, where, and when."""

    hosts: list[Host]
    output: Path
    length_s: float
    at: str | None
    tcpwhy: list[str]
    record: list[str]
    ssh: list[str]
    most: int

    @staticmethod
    def of(args: argparse.Namespace) -> Plan:
        """From the command line."""
        return Plan(
            hosts=host_file.read(args.hosts),
            output=args.output,
            length_s=seconds(args.length),
            at=args.at,
            tcpwhy=shlex.split(args.tcpwhy),
            record=shlex.split(args.record),
            ssh=shlex.split(args.ssh),
            most=max(1, args.most),
        )


@dataclass
class Reached:
    """A host that answers."""

    host: Host
    # How far its clock is from this machine's, and within what: half of the round trip.
    clock_s: float
    within_s: float

    @property
    def ahead_s(self) -> float:
        """How far its clock is ahead, where ssh can tell; one that may be right is better than what ssh tells."""
        return self.clock_s if abs(self.clock_s) > self.within_s else 0.0


def collect(plan: Plan, say: Say) -> int:
    """Records on all hosts; one that fails is said, and the rest goes on. Gives how many recordings there are."""
    plan.output.mkdir(parents=True, exist_ok=True)
    reached = _each(plan.most, plan.hosts, lambda host: _reach(plan, host), say)
    if not reached:
        say("no host was reached")
        return 0
    start = _start(plan.at, LEAD_S + len(reached) / SESSIONS_A_SECOND)
    say(f"{plural(len(reached), 'host')} reached; all record from {start:%H:%M:%S} for {plan.length_s:g} s")
    for line in clocks(reached):
        say(line)
    named = names(plan.output, reached)
    # All at once, however many: who came later would record other seconds.
    done = _each(len(reached), reached, lambda of: _record(plan, of, named[of.host.address], start, say), say)
    _keep_labels(plan.output, {named[of.host.address].name: of.host.labels for of in reached})
    ahead_s = {plan.output / named[of.host.address]: of.ahead_s for of in reached}
    for line in overlap(plan.output, {path: ahead_s[path] for path in done}):
        say(line)
    say(f"{plural(len(done), 'recording')} of {plural(len(plan.hosts), 'host')} in {plan.output}")
    recorded = {of.host.address for of in reached if plan.output / named[of.host.address] in done}
    if failed := [host.address for host in plan.hosts if host.address not in recorded]:
        say(f"not recorded: {joined([shown(address) for address in failed], MOST_NAMED)}")
    return len(done)


def _each(most: int, items: list[T], work: Callable[[T], R], say: Say) -> list[R]:
    """Does it for so many at once; who fails is said."""
    results = []
    with ThreadPoolExecutor(min(most, len(items))) as threads:
        futures = {threads.submit(work, item): item for item in items}
        for future in as_completed(futures):
            try:
                results.append(future.result())
            except (UnfitError, OSError) as e:
                say(f"FAILED {shown(e)}")
    return results


def _ssh(plan: Plan, host: Host, remote: str) -> list[str]:
    return [*plan.ssh, *SSH_OPTIONS, "--", host.address, remote]


def _reach(plan: Plan, host: Host) -> Reached:
    """Whether the host answers, and what its clock says, asked once ssh is there: its handshake is not in it."""
    command = _ssh(plan, host, f"echo && read go && date +%s.%N && {shlex.join(plan.tcpwhy)} --version >&2")
    pipe = subprocess.PIPE
    # Unbuffered: what a host that has gone did not take is not written once more at the end.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as ssh:
        assert ssh.stdin and ssh.stdout and ssh.stderr  # noqa: S101
        timer = threading.Timer(REACH_S, ssh.kill)
        said: list[bytes] = []
        listener = threading.Thread(target=_last_words, args=(ssh.stderr, said))
        timer.start()
        listener.start()
        try:
            ssh.stdout.readline(LONGEST_LINE)
            before = time.time()
            with contextlib.suppress(BrokenPipeError):
                ssh.stdin.write(b"\n")
            printed = ssh.stdout.readline(LONGEST_LINE)
            after = time.time()
            code = ssh.wait()
        finally:
            timer.cancel()
            listener.join(5)
    if code == -signal.SIGKILL:
        raise UnfitError(f"{host.address}: did not answer within {REACH_S:g} s")
    if code:
        raise UnfitError(f"{host.address}: {_words(said) or f'ssh ended with {code}'}")
    # Not every date knows nanoseconds.
    found = re.match(rb"\d+(\.\d+)?", printed)
    if not found:
        raise UnfitError(f"{host.address}: `date` printed no time")
    clock = float(found[0])
    return Reached(host, clock - (before + after) / 2, (after - before) / 2)


def _start(at: str | None, lead_s: float) -> datetime:
    """The moment that all begin at, by the clock of this machine."""
    now = datetime.now().astimezone()
    if at is None:
        return now + timedelta(seconds=lead_s)
    if at.startswith("+"):
        return now + timedelta(seconds=seconds(at[1:]))
    try:
        moment = datetime.combine(now.date(), datetime.strptime(at, "%H:%M:%S").time(), now.tzinfo)
    except ValueError:
        raise UnfitError(f"--at {at}: a time of day is 14:05:00; in a while is +20s") from None
    if moment < now:
        raise UnfitError(f"--at {at}: that has passed")
    return moment


def names(at: Path, reached: list[Reached]) -> dict[str, Path]:
    """A file for each host, also where two differ by what a file's name cannot hold; one that is there stays."""
    found: dict[str, Path] = {}
    for of in sorted(reached, key=lambda r: r.host.address):
        name, n = plain(of.host.address), 1
        while Path(f"{name}.tcpw") in found.values() or (at / f"{name}.tcpw").exists():
            n += 1
            name = f"{plain(of.host.address)}-{n}"
        found[of.host.address] = Path(f"{name}.tcpw")
    return found


def _record(plan: Plan, of: Reached, name: Path, start: datetime, say: Say) -> Path:
    """Records one host into a file; what comes is bounded, and half of one is not taken for a whole."""
    # Each host waits by its own clock for the moment that is this one here.
    wait_until = start.timestamp() + of.ahead_s
    pause = f"sleep $(awk -v t={wait_until:.3f} -v n=$(date +%s.%N) 'BEGIN {{ d = t - n; print (d > 0 ? d : 0) }}')"
    labels = [word for key, value in of.host.labels.items() for word in ("--label", f"{key}={value}")]
    record = [*plan.tcpwhy, "record", "-o", "-", "--for", f"{round(plan.length_s * 1000)}ms", *labels, *plan.record]
    path, made = plan.output / name, plan.output / f".{name}.part"
    command = _ssh(plan, of.host, f"{pause}; exec {shlex.join(record)}")
    began = time.monotonic()
    with made.open("wb") as out, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ssh:
        assert ssh.stdout and ssh.stderr  # noqa: S101
        until = max(0.0, start.timestamp() - time.time()) + plan.length_s + GRACE_S
        timer = threading.Timer(until, ssh.kill)
        timer.start()
        said: list[bytes] = []
        listener = threading.Thread(target=_last_words, args=(ssh.stderr, said))
        listener.start()
        try:
            size = _copy(ssh.stdout, out)
        finally:
            timer.cancel()
            # One that sends without end is not waited for.
            if ssh.poll() is None and _size_is_over(out):
                ssh.kill()
            code = ssh.wait()
            listener.join(5)
    if code or not size:
        made.unlink()
        raise UnfitError(f"{of.host.address}: {_words(said) or f'ended with {code}'}")
    made.replace(path)
    took = time.monotonic() - began
    say(f"{shown(of.host.address)}: {size / 1e6:.1f} MB in {took:.0f} s -> {name}")
    return path


def _copy(source: IO[bytes], out: IO[bytes]) -> int:
    size = 0
    while size < MOST_BYTES and (chunk := source.read(CHUNK)):
        out.write(chunk)
        size += len(chunk)
    return size


def _size_is_over(out: IO[bytes]) -> bool:
    """Whether more came than a recording has."""
    return out.tell() >= MOST_BYTES


def _last_words(source: IO[bytes], said: list[bytes]) -> None:
    """The end of what a program says, however much that is."""
    while chunk := source.read(4096):
        said.append(chunk)
        del said[:-2]


def _words(said: list[bytes]) -> str:
    """The end of it as text."""
    return b"".join(said)[-300:].decode("utf-8", "replace").strip()


def _keep_labels(at: Path, labels: dict[str, dict[str, str]]) -> None:
    """Labels of the file of hosts, for recorders that do not know them."""
    path = at / LABELS
    known: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | labels, indent=1, sort_keys=True))


def clocks(reached: list[Reached]) -> list[str]:
    """Hosts whose clock is off for sure."""
    off = [of for of in reached if abs(of.ahead_s) > CLOCK_OFF_S]
    off.sort(key=lambda of: (-abs(of.ahead_s), of.host.address))
    lines = []
    for of in off[:MOST_NAMED]:
        way = "ahead of" if of.clock_s > 0 else "behind"
        length = f"{milliseconds(abs(of.clock_s) * 1e9)} ± {milliseconds(of.within_s * 1e9)}"
        lines.append(f"{shown(of.host.address)}: its clock is {length} {way} the one here")
    return lines + ([f"and {plural(len(off) - MOST_NAMED, 'more clock')}"] if len(off) > MOST_NAMED else [])


def overlap(at: Path, ahead_s: dict[Path, float]) -> list[str]:
    """How far these recordings are of the same seconds, by the clock of this machine."""
    store = Store(at)
    left_out = [f"left out {path.name}: {why}" for path, why in sorted(store.left_out.items()) if path in ahead_s]
    entries = [e for e in store.entries.values() if e.given in ahead_s]
    if len(entries) <= 1:
        return left_out
    starts = [e.manifest.started_at_ns - round(ahead_s[e.given] * 1e9) for e in entries]
    ends = [e.manifest.ended_at_ns - round(ahead_s[e.given] * 1e9) for e in entries]
    skew, both = max(starts) - min(starts), min(ends) - max(starts)
    if both <= 0:
        return [*left_out, "no second is in all of them: some recorders started late, or a clock was set meanwhile"]
    return [*left_out, f"they begin within {milliseconds(skew)}; {milliseconds(both)} are in all of them"]
