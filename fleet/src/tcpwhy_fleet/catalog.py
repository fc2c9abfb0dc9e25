"""Which recordings a directory has: each once, hosts of one name told apart, and what is known without their tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from .manifest import Manifest, plain
from .unfit import UnfitError

# Two recordings of a host that share so much of the shorter one are one collection made twice.
SAME = 0.5
Say = Callable[[str], None]


@dataclass
class Entry:
    """A recording in the store."""

    path: Path
    manifest: Manifest
    host: str
    whole: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    # What it is given by: the file that the user has, which may be packed.
    given: Path = Path()

    @property
    def rec(self) -> str:
        return self.manifest.rec

    @property
    def explained(self) -> bool:
        """Whether explain has written what it found."""
        return any((self.path / "answer").glob("*.parquet"))


def once(fit: list[Entry], left_out: dict[Path, str]) -> list[Entry]:
    """Without what is there twice: copies, and the same seconds of a host collected twice."""
    kept: list[Entry] = []
    # Of two, the one that is whole and the longer one stays.
    fit.sort(key=lambda e: (not e.manifest.complete, e.manifest.start_ns - e.manifest.end_ns, str(e.given)))
    by_boot: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in fit:
        of = entry.manifest
        same = by_boot.setdefault((of.host, of.boot_id, of.producer), [])
        twin = next((e for e in same if e.rec == entry.rec), None)
        again = next((e for e in same if _share(e.manifest, of) > SAME), None)
        if twin:
            left_out[entry.given] = f"a copy of {twin.given.name}"
        elif again and of.producer == "live":
            left_out[entry.given] = f"the same seconds of {of.host} as {again.given.name}"
        else:
            same.append(entry)
            kept.append(entry)
    return kept


def name_hosts(entries: list[Entry], say: Say) -> None:
    """Hosts of one name that were up at the same time are told apart by their boot ids."""
    by_name: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        by_name.setdefault(entry.host, {}).setdefault(entry.manifest.boot_id, []).append(entry)
    for name, boots in by_name.items():
        if _at_once(boots):
            say(f"{len(boots)} hosts are called {name}: they are told apart by their boot ids")
            for boot_id, of_boot in boots.items():
                for entry in of_boot:
                    entry.host = f"{name}.{plain(boot_id)[:8]}"


def rows_of(entry: Entry, rows: dict[str, list[dict[str, Any]]]) -> None:
    of, rec = entry.manifest, entry.rec
    rows["recording"].append(
        {
            "rec": rec,
            "host": entry.host,
            "day": of.day,
            "name": of.host,
            "boot_id": of.boot_id,
            "kernel": of.kernel,
            "machine": of.machine,
            "hz": of.hz,
            "cpus": of.cpus,
            "producer": of.producer,
            "tcpwhy": of.tcpwhy,
            "started_at_ns": of.started_at_ns,
            "ended_at_ns": of.ended_at_ns,
            "complete": of.complete and entry.whole,
            "explained": entry.explained,
            "lost_records": min(sum(max(s.lost, 0) for s in of.sources), 2**63 - 1),
            "path": shown_name(entry.given),
        }
    )
    rows["label"] += [{"rec": rec, "key": k, "value": v} for k, v in sorted(entry.labels.items())]
    rows["namespace"] += [{"rec": rec, "netns": inode, "name": name} for inode, name in of.namespaces]
    rows["source"] += [
        {"rec": rec, "source": s.name, "verdict": s.verdict, "because": s.because, "lost": s.lost} for s in of.sources
    ]


def shown_name(path: Path) -> str:
    return path.name.encode("utf-8", "replace").decode()


def _share(one: Manifest, other: Manifest) -> float:
    both = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    least = min(one.end_ns - one.start_ns, other.end_ns - other.start_ns)
    return both / least if least > 0 else float(both >= 0)


def _at_once(boots: dict[str, list[Entry]]) -> bool:
    """Whether recordings of different boots overlap: then they are of different hosts."""
    spans = sorted((e.manifest.started_at_ns, e.manifest.ended_at_ns, b) for b, of in boots.items() for e in of)
    return any(a[1] > b[0] and a[2] != b[2] for a, b in pairwise(spans))


def labels_of(path: Path) -> dict[str, dict[str, str]]:
    """What `collect` knows of the recordings from the file of hosts."""
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as e:
        raise UnfitError(f"{path}: {e}") from None
    if not isinstance(said, dict):
        raise UnfitError(f"{path}: not labels by recording")
    return {str(k): {str(a): str(b) for a, b in v.items()} for k, v in said.items() if isinstance(v, dict)}


def of_texts(labels: Iterable[str]) -> dict[str, str]:
    """Labels of the recorder: `rack=r1`, or a plain word."""
    pairs = [label.partition("=") for label in labels]
    return {key if eq else "label": value if eq else key for key, eq, value in pairs}
