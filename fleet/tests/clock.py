"""Recordings of hosts whose clock is off. As a program: shifts the one that comes from standard input, packed."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path


def shift(recording: Path, by_s: float) -> None:
    """Makes a recording one of a host whose clock is ahead."""
    path = recording / "manifest.json"
    path.write_bytes(_shifted(path.read_bytes(), by_s))


def _shifted(manifest: bytes, by_s: float) -> bytes:
    said = json.loads(manifest)
    said["clock_offset_ns"] += round(by_s * 1e9)
    return json.dumps(said).encode()


def main() -> None:
    """A file after the other, as they come."""
    with (
        tarfile.open(fileobj=sys.stdin.buffer, mode="r|*") as come,
        tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as go,
    ):
        for member in come:
            content = come.extractfile(member)
            text = content.read() if content else b""
            if member.name.endswith("manifest.json"):
                text = _shifted(text, float(sys.argv[1]))
                member.size = len(text)
            go.addfile(member, io.BytesIO(text))


if __name__ == "__main__":
    main()
