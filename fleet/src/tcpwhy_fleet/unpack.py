"""Unpacks a recording that is one file (`.tcpw`: a tar, plain or gzip'ed). The file is hostile."""

from __future__ import annotations

import re
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Literal, Self

from .files import CHUNK, Dir, Room
from .unfit import UnfitError

MOST_FILES = 200_000
MOST_BYTES = 8 << 30
# Of what no recording of this version has: it is passed over, and has to be read for that.
MOST_OTHER_BYTES = 256 << 20
# A file takes no less than this of a disk.
BLOCK = 4096
# Headers that extend the one that follows them: tarfile reads them by recursion.
MOST_EXTENSIONS = 8
# Longest header of an extension of tar, which tells nothing that is asked.
EXTENSION = 64 << 10
GZIP = b"\x1f\x8b"
# How others begin, and what undoes them.
OTHERS = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
SEGMENT = re.compile(r"[0-9]{6,}\.parquet")
TABLE = re.compile(r"[a-z_]{1,32}")


def unpack(source: IO[bytes], to: Path) -> bool:
    """Makes files of a recording in `to`, and nothing else; false when the source ended too early."""
    with Dir.given(to) as at:
        try:
            return _unpack(source, at)
        except (tarfile.TarError, OverflowError, ValueError, RecursionError, zlib.error) as e:
            raise UnfitError(f"damaged: {str(e)[:100]}") from None


def _unpack(source: IO[bytes], to: Dir) -> bool:
    whole, has_manifest = False, False
    files, other, room = 0, 0, Room(to.handle, MOST_BYTES)
    try:
        with _Tar.open(fileobj=source, mode=_mode(source)) as tar:
            for member in tar:
                files += 1
                if files > MOST_FILES:
                    raise UnfitError(f"more than {MOST_FILES} files")
                if member.size < 0:
                    raise UnfitError(f"{member.name[:80]!r} has less than nothing")
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    raise UnfitError(f"{member.name[:80]!r} is not a regular file")
                place = _place(member.name)
                room.take(max(member.size, BLOCK))
                if place is None:
                    other += member.size
                    if other > MOST_OTHER_BYTES:
                        raise UnfitError(f"more than {MOST_OTHER_BYTES >> 20} MB that are no recording's")
                    continue
                content = tar.extractfile(member)
                if content is None or not _write(content, to, place, member.size, room):
                    break
                has_manifest |= place.name == "manifest.json"
            if tar.has_end and not has_manifest:
                raise UnfitError("it has no manifest.json")
            whole = tar.has_end
    except (tarfile.ReadError, EOFError) as e:
        if not has_manifest:
            raise UnfitError(f"no recording packed into a file: {e}") from None
    if not has_manifest:
        raise UnfitError("cut short before its manifest.json")
    return whole


def _mode(source: IO[bytes]) -> Literal["r|", "r|gz"]:
    """How it is read: what tells the end of a recording from one that was cut is read as it comes."""
    head = source.read(6)
    source.seek(0)
    for magic, by in OTHERS.items():
        if head.startswith(magic):
            raise UnfitError(f"it is compressed by {by}; {by} -d makes one of it that is read")
    return "r|gz" if head.startswith(GZIP) else "r|"


class _Member(tarfile.TarInfo):
    """A member whose extension headers cannot claim more than they may."""

    @classmethod
    def fromtarfile(cls, tarfile: _Tar) -> Self:  # type: ignore[override]
        tarfile.headers += 1
        tarfile.extensions += 1
        if tarfile.headers > 2 * MOST_FILES or tarfile.extensions > MOST_EXTENSIONS:
            raise UnfitError("more headers than it may have")
        try:
            return super().fromtarfile(tarfile)
        except EOFHeaderError:
            tarfile.has_end = True
            raise
        finally:
            tarfile.extensions -= 1

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
    # Headers that were read, and those that wait for the one that they extend.
    headers, extensions = 0, 0


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


def _write(content: IO[bytes], to: Dir, place: PurePosixPath, size: int, room: Room) -> bool:
    """Writes a file; of one that is cut short nothing stays."""
    left = size
    with to.made(place.parts[0]) if len(place.parts) > 1 else Dir.given(to.path) as at:
        try:
            file = at.new(place.name)
        except FileExistsError:
            raise UnfitError(f"{place.name} is in it twice") from None
        with file:
            try:
                while left > 0 and (chunk := content.read(min(CHUNK, left))):
                    room.look()
                    file.write(chunk)
                    left -= len(chunk)
            except (EOFError, tarfile.ReadError):
                pass
        if left:
            at.remove(place.name)
    return left == 0
