"""Attributes by which `blame` tells paths and connections apart: their own, and those of the hosts at their ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .fleet import Fleet
from .outcomes import Items

# Values of one attribute that are looked at, the commonest: ports and programs have no end of them.
MOST_VALUES = 2_000
Row = dict[str, Any]
# Of those that separate equally well the first is told first.
OWN = {
    "sack": "SACK",
    "window_scaling": "window scaling",
    "timestamps": "timestamps",
    "cookie": "made from a SYN cookie",
    "backlog": "backlog of the listener",
    "congestion": "congestion control",
    "server_port": "port",
    "comm": "program",
    "server_addr": "server address",
}


@dataclass(frozen=True)
class Attribute:
    """One value of one attribute."""

    name: str
    value: str
    rows: tuple[int, ...]

    def mask(self, rows: list[Row]) -> npt.NDArray[np.bool_]:
        """Which rows have it."""
        found = np.zeros(len(rows), dtype=np.bool_)
        found[list(self.rows)] = True
        return found


def of_connections(fleet: Fleet, items: Items) -> Iterator[Attribute]:
    """Attributes of connections."""
    known = host_attributes(fleet)
    for column in OWN:
        yield from _values(items.rows, OWN[column], _of((column,)))
    ends = {"client": "client_host", "server": "server_host"}
    yield from _hosts(items.rows, known, ends)
    interfaces = {"client": "client_interface", "server": "server_interface"}
    yield from _interfaces(items.rows, ends, interfaces)
    for end in ends:
        yield from _narrowest(_values(items.rows, f"cgroup of the {end}", _cgroups(f"{end}_cgroup")))


def of_paths(fleet: Fleet, items: Items) -> Iterator[Attribute]:
    """Attributes of paths."""
    known = host_attributes(fleet)
    for row in items.rows:
        # A host that was not recorded is known by its address.
        row["to"] = row["remote_host"] or row["remote_addr"]
    ends = {"sender": "host", "receiver": "to"}
    yield from _hosts(items.rows, known, ends)
    yield from _interfaces(items.rows, ends, {"sender": "interface", "receiver": "remote_interface"})
    yield from _values(items.rows, "path", lambda row: [f"{row['host']} → {row['to']}"])


def host_attributes(fleet: Fleet) -> dict[str, dict[str, str]]:
    """What is known of each host: kernel, labels, interfaces, and the sysctls that differ between hosts."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in fleet.rows("SELECT host, kernel, rack, zone, role FROM hosts"):
        found[row["host"]] |= {k: v for k, v in row.items() if k != "host" and v is not None}
    settings = fleet.rows(
        "SELECT host, name, MAX(value) AS value FROM settings WHERE name LIKE 'net.%' GROUP BY host, name"
        " HAVING COUNT(DISTINCT value) = 1 ORDER BY name, host"
    )
    values: dict[str, set[str]] = defaultdict(set)
    for row in settings:
        values[row["name"]].add(row["value"])
    for row in settings:
        if len(values[row["name"]]) > 1:
            found[row["host"]][row["name"]] = row["value"]
    return found


def _hosts(rows: list[Row], known: dict[str, dict[str, str]], ends: dict[str, str]) -> Iterator[Attribute]:
    """The hosts at either end, at any of the two, and what is known of them."""
    names = sorted({name for of in known.values() for name in of})
    for end, column in ends.items():
        yield from _values(rows, end, _of((column,)))
        for name in names:
            yield from _values(rows, f"{name} of the {end}", _of((column,), known, name))
    columns = tuple(ends.values())
    yield from _values(rows, "host at an end", _of(columns))
    for name in ("rack", "zone"):
        if name in names:
            yield from _values(rows, f"{name} at an end", _of(columns, known, name))


def _interfaces(rows: list[Row], hosts: dict[str, str], interfaces: dict[str, str]) -> Iterator[Attribute]:
    """Interfaces by name, as hosts of a fleet call them alike; and one of a host, where it uses several."""
    for end, column in interfaces.items():
        yield from _values(rows, f"interface of the {end}", _of((column,)))
    ends = [(hosts[end], interfaces[end]) for end in hosts]
    used: dict[Any, set[Any]] = defaultdict(set)
    for row in rows:
        for host, interface in ends:
            used[row[host]].add(row[interface])

    def own(row: Row) -> list[str | None]:
        several = [(row[h], row[i]) for h, i in ends if row[i] is not None and len(used[row[h]]) > 1]
        return [f"{interface} of {host}" for host, interface in several]

    yield from _values(rows, "interface at an end", own)


def _cgroups(column: str) -> Callable[[Row], list[Any]]:
    """A cgroup and those above it, the root apart: what is wrong may be wrong of a slice."""

    def of(row: Row) -> list[Any]:
        words = (row[column] or "").strip("/").split("/")
        return ["/" + "/".join(words[: n + 1]) for n in range(len(words)) if words[n]]

    return of


def _narrowest(found: Iterator[Attribute]) -> Iterator[Attribute]:
    """Of several that the same rows have, the last within the others."""
    by_rows: dict[tuple[int, ...], Attribute] = {}
    for attribute in found:
        known = by_rows.get(attribute.rows)
        if known is None or len(attribute.value) > len(known.value):
            by_rows[attribute.rows] = attribute
    yield from by_rows.values()


def _of(
    columns: tuple[str, ...], known: dict[str, dict[str, str]] | None = None, name: str = ""
) -> Callable[[Row], list[Any]]:
    """What a row has in these columns; or what is known by this name of the hosts that are in them."""
    if known is None:
        return lambda row: [row[column] for column in columns]
    return lambda row: [known.get(row[column], {}).get(name) for column in columns]


def _values(rows: list[Row], name: str, of: Callable[[Row], list[Any]]) -> Iterator[Attribute]:
    """Each value that some rows have, and others do not."""
    by_value: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        for value in {v for v in of(row) if v is not None}:
            by_value[_text(value)].append(at)
    commonest = sorted(by_value.items(), key=lambda kv: -sum(rows[at]["n"] for at in kv[1]))
    for text, places in commonest[:MOST_VALUES]:
        yield Attribute(name, text, tuple(places))


def _text(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
