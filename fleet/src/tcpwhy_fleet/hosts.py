"""The file of hosts: one a line, with labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .unfit import UnfitError


@dataclass(frozen=True)
class Host:
    """A host to record on."""

    address: str
    labels: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> list[Host]:
    """Hosts of a file: `web1 rack=r1 role=web`; `#` begins a remark. The first word is what ssh takes."""
    found: dict[str, Host] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        address, *labels = words
        wrong = [label for label in labels if "=" not in label]
        # What begins with a dash would be an option of ssh.
        if address.startswith("-") or "=" in address:
            raise UnfitError(f"{path}:{number}: {address!r} is no host")
        if wrong:
            raise UnfitError(f"{path}:{number}: {wrong[0]!r} is no label; one is rack=r1")
        if address in found:
            raise UnfitError(f"{path}:{number}: {address} is there twice")
        found[address] = Host(address, dict(label.split("=", 1) for label in labels))
    if not found:
        raise UnfitError(f"{path}: names no host")
    return list(found.values())
