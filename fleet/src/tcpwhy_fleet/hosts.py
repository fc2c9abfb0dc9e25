"""The file of hosts: one a line, with labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from .files import read_given
from .unfit import UnfitError

MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Host:
    """A host to record on."""

    address: str
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The host of what ssh takes: `web1` of `root@web1` and of `ssh://root@web1:2222`."""
        url = re.fullmatch(r"ssh://([^/]*?)(:[0-9]+)?/?", self.address)
        return (url[1] if url else self.address).rpartition("@")[2]


def read(path: Path) -> list[Host]:
    """Hosts of a file: `web1 rack=r1 role=web`; `#` begins a remark. The first word is what ssh takes."""
    found: dict[str, Host] = {}
    try:
        text = read_given(path, MOST_BYTES).decode()
    except UnicodeDecodeError as e:
        raise UnfitError(f"{path}: no text: {e}") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        address, *labels = words
        wrong = [label for label in labels if "=" not in label]
        # What begins with a dash would be an option of ssh.
        if address.startswith("-") or "=" in address:
            raise UnfitError(f"{path}:{number}: {address!r} is not a valid host")
        if wrong:
            raise UnfitError(f"{path}:{number}: {wrong[0]!r} is not a valid label; example: rack=r1")
        if address in found:
            raise UnfitError(f"{path}:{number}: {address} is there twice")
        found[address] = Host(address, dict(label.split("=", 1) for label in labels))
    if not found:
        raise UnfitError(f"{path}: names no host")
    return list(found.values())
