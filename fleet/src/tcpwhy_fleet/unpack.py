"""Unpacks a recording that is one file (`.tcpw`: a tar, plain or gzip'ed). The file is hostile."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Self

from .unfit import UnfitError

MOST_FILES = 200_000
MOST_BYTES = 8 << 30
MOST_NAME = 32
# Longest header of an extension of tar, which tells nothing that is asked.
EXTENSION = 64 << 10
CHUNK = 1 << 20
SEGMENT = re.compile(r"[0-9]{6,}\.parquet")
TABLE = re.compile(r"[a-z_]{1,32}")


def unpack(source: IO[bytes], to: Path) -> bool:
    """Makes files of a recording in `to`, and nothing else; false when the source ended too early."""
    whole = False
    files, room = 0, min(MOST_BYTES, shutil.disk_usage(to).free // 2)
    has_manifest = False
    try:
        with _Tar.open(fileobj=source, mode="r|*") as tar:
            for member in tar:
                files += 1
                if files > MOST_FILES:
                    raise UnfitError(f"more than {MOST_FILES} files")
                if member.isdir():
                    continue
                if not member.isreg():
                    raise UnfitError(f"{member.name[:80]!r} is no regular file")
                place = _place(member.name)
                if place is None:
                    continue
                room -= max(member.size, 4096)
                if room < 0:
                    raise UnfitError("larger than what there is room for")
                content = tar.extractfile(member)
                if content is None or not _write(content, to / place, member.size):
                    break
                has_manifest |= place.name == "manifest.json"
            if tar.has_end and not has_manifest:
                raise UnfitError("it has no manifest.json")
            whole = tar.has_end
    except (tarfile.ReadError, EOFError) as e:
        if not has_manifest:
            raise UnfitError(f"no recording packed into a file: {e}") from None
    except (tarfile.TarError, OSError, ValueError) as e:
        raise UnfitError(f"damaged: {str(e)[:100]}") from None
    if not has_manifest:
        raise UnfitError("cut short before its manifest.json")
    return whole


class _Member(tarfile.TarInfo):
    """A member whose extension headers cannot claim more than they may."""

    @classmethod
    def fromtarfile(cls, tarfile: _Tar) -> Self:  # type: ignore[override]
        try:
            return super().fromtarfile(tarfile)
        except EOFHeaderError:
            tarfile.has_end = True
            raise

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        extensions = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        if self.type in extensions and self.size > EXTENSION:
            raise UnfitError("an extension of tar larger than any has")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise UnfitError("it has a sparse file")
        made: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return made


class _Tar(tarfile.TarFile):
    """A tar of which it is known whether its end came: one cut between two files would look whole."""

    tarinfo = _Member
    has_end = False


def _place(name: str) -> PurePosixPath | None:
    """Where a file goes; none for what no recording has, and for a way out of it."""
    parts = [part for part in PurePosixPath(name).parts if part != "."]
    if name.startswith("/") or ".." in parts:
        raise UnfitError(f"{name[:80]!r} leads out of it")
    if len(parts) in (1, 2) and parts[-1] == "manifest.json":
        return PurePosixPath("manifest.json")
    if len(parts) in (2, 3) and TABLE.fullmatch(parts[-2]) and SEGMENT.fullmatch(parts[-1]):
        return PurePosixPath(parts[-2], parts[-1])
    return None


def _write(content: IO[bytes], path: Path, size: int) -> bool:
    """Writes a file; of one that is cut short nothing stays."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UnfitError(f"{path.name} is in it twice") from None
    left = size
    with os.fdopen(handle, "wb") as file:
        try:
            while left > 0 and (chunk := content.read(min(CHUNK, left))):
                file.write(chunk)
                left -= len(chunk)
        except (EOFError, tarfile.ReadError):
            pass
    if left:
        path.unlink()
    return left == 0
