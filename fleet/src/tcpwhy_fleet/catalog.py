"""Which recordings a directory has, and what is known of them without their tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .files import Dir
from .manifest import Manifest, storable
from .unfit import UnfitError

LABELS, COLLECTED = "labels.json", "collected.json"
MOST_LABELS = 16 << 20
Said = dict[str, dict[str, str]]
Say = Callable[[str], None]


@dataclass
class Entry:
    """A recording in the store."""

    path: Path
    manifest: Manifest
    # What it is given by: the file that the user has, which may be packed.
    given: Path
    whole: bool = True
    # The address that `collect` had it from, if it did.
    origin: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    # What the fleet calls its host, and the recording itself.
    host: str = ""
    rec: str = ""

    @property
    def explained(self) -> bool:
        """Whether explain has written what it found."""
        try:
            with Dir.within(self.path) as recording, recording.sub("answer") as answers:
                return any(name.endswith(".parquet") for name in answers.names())
        except (OSError, UnfitError):
            return False


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
            "path": storable(entry.given.name),
        }
    )
    rows["label"] += [{"rec": rec, "key": k, "value": v} for k, v in sorted(entry.labels.items())]
    rows["namespace"] += [{"rec": rec, "netns": inode, "name": name} for inode, name in of.namespaces]
    rows["source"] += [
        {"rec": rec, "source": s.name, "verdict": s.verdict, "because": s.because, "lost": s.lost} for s in of.sources
    ]


def said_in(at: Dir, name: str) -> dict[str, Any]:
    """What is in a file beside the recordings; nothing where there is none."""
    try:
        said = json.loads(at.read(name, MOST_LABELS))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        raise UnfitError("it is damaged") from None
    except OSError as e:
        raise UnfitError(f"it cannot be read: {e.strerror}") from None
    if not isinstance(said, dict):
        raise UnfitError("it says nothing by recording")
    return dict(said)


def labels_in(at: Dir) -> Said:
    """What `collect` knows of the recordings from the file of hosts."""
    found: Said = {}
    for name, labels in said_in(at, LABELS).items():
        if isinstance(labels, dict):
            kept = {k: v for k, v in labels.items() if isinstance(v, str | int | float)}
            found[name] = {storable(k): storable(str(v)) for k, v in kept.items()}
    return found


def origins_in(at: Dir) -> dict[str, str]:
    """The addresses that `collect` had the recordings from."""
    return {k: storable(v) for k, v in said_in(at, COLLECTED).items() if isinstance(v, str) and v}


def of_texts(labels: Iterable[str]) -> dict[str, str]:
    """Labels of the recorder: `rack=r1`, or a plain word."""
    pairs = [label.partition("=") for label in labels]
    return {key if eq else "label": value if eq else key for key, eq, value in pairs}
