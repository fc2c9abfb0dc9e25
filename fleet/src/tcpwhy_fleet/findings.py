"""All hosts' findings as few: a fault seen from two ends is one, a cause at forty hosts is one with forty places."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from . import blame
from .fleet import Fleet
from .text import joined, lost, number, plural, shown

# Paths share a bottleneck where at least so many have one host at an end, and no more than so many do not.
SHARED_PLACES = 3
SHARED = 0.8
SHOWN_PLACES = 6
# What a host from outside calls a fault that the host where it is calls by its name.
FROM_OUTSIDE = {
    "middlebox-strips-options": {"syn-cookie-options-lost"},
    "path-drops-syn": {
        "accept-imbalance",
        "accept-queue-overflow",
        "conntrack-full",
        "conntrack-insert-failed",
        "descriptors-exhausted",
        "half-open",
        "local-firewall-drop",
        "snat-ports-exhausted",
        "syn-queue-overflow",
        "time-wait-collision",
    },
    "peer-gone": {"conntrack-full", "local-firewall-drop"},
    "injected-reset": {"local-firewall-drop", "reset-by-application", "reset-unread-data"},
    "reset-by-peer": {"injected-reset", "local-firewall-drop", "reset-by-application", "reset-unread-data"},
    "slow-peer": {
        "accept-imbalance",
        "accept-queue-overflow",
        "cpu-contention",
        "cpu-saturated",
        "descriptors-exhausted",
        "lookup-table-growth",
        "slow-accept",
        "slow-application",
        "slow-reader",
        "softirq-starvation",
    },
}


@dataclass
class Place:
    """A place of a fault."""

    host: str
    place: str
    lost_s: float | None
    # Hosts that tell of it.
    told_by: int
    seen_at_both: bool
    affected: int
    of: int
    counted: str
    confidence: str
    title: str
    fix: str
    # What hosts call it that see it from outside, and how many do.
    from_outside: dict[str, int] = field(default_factory=dict)
    # Of a path, the names of the hosts at its ends, in order.
    between: tuple[str, ...] = ()


@dataclass
class Merged:
    """A cause over the fleet."""

    cause: str
    layer: str
    lost_s: float | None
    places: list[Place] = field(default_factory=list)
    # The host at an end of nearly all paths that it holds at, and how that is said.
    shared_by: str | None = None
    shared: str = ""

    @property
    def hosts(self) -> list[str]:
        """Hosts where it is."""
        return sorted({place.host for place in self.places})

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {"type": "finding", **asdict(self), "hosts": self.hosts}


def merged(fleet: Fleet) -> list[Merged]:
    """The findings of all hosts, what cost most first; what nobody can measure comes last."""
    by_cause: dict[str, Merged] = {}
    query = "SELECT * FROM faults ORDER BY COALESCE(lost_s, 0) DESC, cause, place_host, place"
    for row, place in _settled(fleet.rows(query)):
        of = by_cause.setdefault(row["cause"], Merged(row["cause"], row["layer"], None))
        if place.lost_s is not None:
            of.lost_s = (of.lost_s or 0.0) + place.lost_s
        of.places.append(place)
    _share(fleet, [found for found in by_cause.values() if any("→" in p.place for p in found.places)])
    return sorted(by_cause.values(), key=lambda f: (f.lost_s is None, -(f.lost_s or 0.0), f.cause))


def _settled(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Place]]:
    """Faults without those that the host where they are knows better; these cost what who lost more says."""
    there: dict[tuple[str, str], list[tuple[dict[str, Any], Place]]] = {}
    kept = []
    for row in rows:
        if row["seen_there"]:
            pair = (row, _place(row))
            there.setdefault(_service(row), []).append(pair)
            kept.append(pair)
    for row in rows:
        if row["seen_there"]:
            continue
        names = FROM_OUTSIDE.get(row["cause"], set())
        known = [place for of, place in there.get(_service(row), []) if of["cause"] in names]
        if not known:
            kept.append((row, _place(row)))
            continue
        known[0].from_outside[row["cause"]] = row["hosts"]
        if row["lost_s"] is not None:
            known[0].lost_s = max(known[0].lost_s or 0.0, row["lost_s"])
    return sorted(kept, key=lambda pair: -(pair[1].lost_s or 0.0))


def _service(row: dict[str, Any]) -> tuple[str, str]:
    return row["place_host"], str(row["place"]).rpartition(":")[2]


def _place(row: dict[str, Any]) -> Place:
    return Place(
        host=row["place_host"],
        place=row["place"],
        lost_s=row["lost_s"],
        told_by=row["hosts"],
        seen_at_both=row["seen_there"] and row["seen_from_outside"],
        affected=row["affected"],
        of=row["of_all"],
        counted=row["counted"],
        confidence=row["confidence"],
        title=row["title"],
        fix=row["fix"],
    )


def _share(fleet: Fleet, paths: list[Merged]) -> None:
    """Says of causes that hold at paths which host these have in common: one bottleneck is one answer."""
    if not paths:
        return
    hosts = {row["addr"]: row["host"] for row in fleet.rows("SELECT addr, host FROM addresses")}
    # Each host tells of the paths that lost enough for it alone; all hosts together tell of more.
    (lossy,) = blame.ask(fleet, "lossy")
    best = [one.best for one in lossy.separate if one.best.attribute == "host at an end"]
    for found in paths:
        for place in found.places:
            place.between = _between(place, hosts)
        ends = [set(place.between) or {place.host} for place in found.places]
        for of in best:
            if all(of.value in pair for pair in ends):
                found.shared_by = of.value
                found.shared = f"{of.bad:,} of the fleet's {lossy.bad:,} lossy paths have {of.value} at one end"
                break
        else:
            counts = Counter(host for pair in ends for host in pair)
            (first, n), *others = counts.most_common(2)
            alone = not others or others[0][1] < n
            if len(ends) >= SHARED_PLACES and n >= SHARED * len(ends) and alone:
                found.shared_by = first
                found.shared = f"{n:,} of {len(ends):,} paths have {first} at one end"


def _between(place: Place, hosts: dict[str, str]) -> tuple[str, ...]:
    """Hosts at the ends of a path; none of what is no path, as all paths of a host."""
    if "→" not in place.place:
        return ()
    parts = (part.strip() for part in place.place.removeprefix("path ").split("→"))
    return tuple(hosts.get(addr, addr) for addr in parts if addr)


def lines(found: list[Merged]) -> list[str]:
    """The findings for people."""
    said: list[str] = []
    for at, of in enumerate(found, 1):
        first = of.places[0]
        said.append(f"{at}. {shown(of.cause)}: {lost(of.lost_s)}, {first.confidence} confidence")
        if of.shared_by:
            said.append(f"   {shown(of.shared)}: look at its uplink first")
        if len(of.places) > 1:
            where = f"on {plural(len(of.hosts), 'host')}" if len(of.hosts) > 1 else f"of {shown(first.host)}"
            said.append(f"   at {plural(len(of.places), 'place')} {where}; the costliest:")
        said.append(f"   {shown(first.host)}: {shown(first.title)}")
        said.append(f"   do: {shown(first.fix)}")
        if len(of.places) > 1:
            said += [f"   {_line(place)}" for place in of.places[:SHOWN_PLACES]]
            if (more := len(of.places) - SHOWN_PLACES) > 0:
                said.append(f"   and {plural(more, 'more place')}")
        elif first.seen_at_both:
            said.append(f"   told by both ends ({plural(first.told_by, 'host')}), counted once")
        said += [f"   {_from_outside(place, one=len(of.places) == 1)}" for place in of.places if place.from_outside]
        said.append("")
    return said or ["No host tells of a finding.", ""]


def _from_outside(place: Place, *, one: bool) -> str:
    """How hosts call it that cannot see the cause."""
    called = joined([f"{shown(cause)} by {plural(n, 'other host')}" for cause, n in place.from_outside.items()])
    whose = "it" if one else f"that of {shown(place.host)}"
    return f"{whose} is called {called}, which cannot see the cause: counted once"


def _line(place: Place) -> str:
    both = ", told by both ends" if place.seen_at_both else ""
    counted = f"{place.affected:,} of {place.of:,} {shown(place.counted)}" if place.of else ""
    lost = "" if place.lost_s is None else f"{number(place.lost_s)} s"
    parts = [part for part in (lost, counted) if part]
    where = f"{shown(place.host)}, {shown(place.place)}"
    if place.between:
        where = f"{' → '.join(map(shown, place.between))} ({shown(place.place).removeprefix('path ')})"
    return f"- {where}: {', '.join(parts)}{both}"
