"""The same seconds on many hosts: over the system's ssh, which streams `tcpwhy record -o -`; or from where they are."""

from __future__ import annotations

import argparse
import contextlib
import re
import resource
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TypeVar

from . import ending
from . import hosts as host_file
from .catalog import Say
from .files import CHUNK, Dir, Room, Share, free_bytes, make_dir
from .hosts import Host
from .manifest import EARLIEST, LATEST
from .parts import Parts, sweep
from .store import Store
from .text import joined, milliseconds, plural, shown
from .unfit import UnfitError, as_bug

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
LONGEST_LINE = 4096
# Clocks that differ by less are kept by NTP well enough for logs to be read beside each other.
CLOCK_OFF_S = 0.1
# Hosts that a line names.
MOST_NAMED = 10
MOST_BYTES = 8 << 30
# What has to be free for each host, and at all, before anybody is asked to record.
LEAST_FREE, LEAST_FREE_HOST = 16 << 20, 1 << 20
SSH_OPTIONS = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]


def seconds(text: str) -> float:
    """A length of time as tcpwhy takes it: 500ms, 30s, 10m."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not found or float(found[1]) <= 0:
        raise UnfitError(f"`{text}` is not a valid duration; examples: 30s, 500ms, 10m")
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
    _raise_files()
    with Dir.given(make_dir(plan.output)) as out:
        sweep(out)
        needed = LEAST_FREE + LEAST_FREE_HOST * len(plan.hosts)
        if (free := free_bytes(out.handle)) < needed:
            least = f"{needed >> 20} MB at least for {plural(len(plan.hosts), 'host')}"
            raise UnfitError(f"{plan.output}: {free >> 20} MB are free, and it takes {least}; name another -o")
        return _collect(plan, out, say)


def _collect(plan: Plan, out: Dir, say: Say) -> int:
    reached = _each(plan.most, plan.hosts, lambda host: _reach(plan, host), say)
    if not reached:
        say("no host was reached")
        return 0
    start = _start(plan.at, LEAD_S + len(reached) / SESSIONS_A_SECOND)
    say(f"{plural(len(reached), 'host')} reached; all record from {start:%H:%M:%S} for {plan.length_s:g} s")
    for line in clocks(reached):
        say(line)
    room = Room(out.handle, MOST_BYTES * len(reached), len(reached))
    with Parts(out, [of.host for of in reached]) as parts:
        # All at once, however many: who came later would record other seconds.
        done = _each(len(reached), reached, lambda of: _record(plan, of, parts, start, room, say), say)
    ahead_s = {plan.output / parts.names[of.host.address]: of.ahead_s for of in reached}
    paths = {plan.output / parts.names[address] for address in done}
    say(f"{plural(len(done), 'recording')} of {plural(len(plan.hosts), 'host')} in {plan.output}")
    if failed := [host.address for host in plan.hosts if host.address not in done]:
        say(f"not recorded: {joined([shown(address) for address in failed], MOST_NAMED)}")
    for line in overlap(plan.output, {path: ahead_s[path] for path in paths}, say) if paths else []:
        say(line)
    return len(done)


def _raise_files() -> None:
    """Three files are open for each host, and as many hosts at once as there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))


def _each(most: int, items: list[T], work: Callable[[T], R], say: Say) -> list[R]:
    """Does it for so many at once; who fails is said."""
    results = []
    with ThreadPoolExecutor(min(most, len(items))) as threads:
        futures = [threads.submit(work, item) for item in items]
        try:
            for future in as_completed(futures):
                try:
                    results.append(future.result())
                except (UnfitError, OSError) as e:
                    say(f"FAILED {shown(e)}")
                except Exception as e:
                    say(f"FAILED {as_bug(e)}")
        except BaseException:
            # What runs is ended by who ends us; what waits does not begin.
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _ssh(plan: Plan, host: Host, remote: str) -> list[str]:
    return [*plan.ssh, *SSH_OPTIONS, "--", host.address, remote]


def _reach(plan: Plan, host: Host) -> Reached:
    """Whether the host answers, and what its clock says, asked once ssh is there: its handshake is not in it."""
    command = _ssh(plan, host, f"echo && read go && date +%s.%N && {shlex.join(plan.tcpwhy)} --version >&2")
    pipe = subprocess.PIPE
    # Unbuffered: what a host that has gone did not take is not written once more at the end, and nobody who still
    # holds the other end of a pipe is waited for when it is closed.
    with ending.child(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as ssh, _bounded(ssh, REACH_S) as heard:
        assert ssh.stdin and ssh.stdout  # noqa: S101
        ssh.stdout.readline(LONGEST_LINE)
        before = time.time()
        with contextlib.suppress(BrokenPipeError):
            ssh.stdin.write(b"\n")
        printed = ssh.stdout.readline(LONGEST_LINE)
        after = time.time()
        code = ssh.wait()
    if heard.too_late:
        raise UnfitError(f"{host.address}: did not answer within {REACH_S:g} s")
    if code:
        raise UnfitError(f"{host.address}: {heard.words() or f'ssh ended with {code}'}")
    clock = _clock(host, printed)
    return Reached(host, clock - (before + after) / 2, (after - before) / 2)


def _clock(host: Host, printed: bytes) -> float:
    """The time that a host's `date` printed."""
    # Not every date knows nanoseconds.
    found = re.match(rb"[0-9]{1,12}(\.[0-9]{1,9})?", printed)
    clock = float(found[0]) if found else None
    if clock is None:
        raise UnfitError(f"{host.address}: `date` printed no time")
    if not EARLIEST <= clock * 1e9 <= LATEST:
        raise UnfitError(f"{host.address}: its clock was not set: it is not of this century")
    return clock


class _Heard:
    """What a program says on its standard error, and whether it was ended because it took too long."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.too_late = False

    def words(self) -> str:
        """The end of it as text."""
        return b"".join(self.said)[-300:].decode("utf-8", "replace").strip()


@contextlib.contextmanager
def _bounded(ssh: subprocess.Popen[bytes], seconds: float) -> Iterator[_Heard]:
    """Listens to a program, and ends it when the time is up."""
    assert ssh.stderr  # noqa: S101
    heard = _Heard()

    def end() -> None:
        heard.too_late = True
        ending.end([ssh])

    timer = threading.Timer(seconds, end)
    listener = threading.Thread(target=_last_words, args=(ssh.stderr, heard.said), daemon=True)
    timer.daemon = True
    timer.start()
    listener.start()
    try:
        yield heard
    finally:
        timer.cancel()
        # It says nothing more then, but by what it has left behind, which is not waited for.
        ending.end([ssh])
        listener.join(1)


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


def _record(plan: Plan, of: Reached, parts: Parts, start: datetime, room: Room, say: Say) -> str:
    """Records one host into a file; what comes is bounded, and half of one is not taken for a whole."""
    # Each host waits by its own clock for the moment that is this one here.
    wait_until = start.timestamp() + of.ahead_s
    pause = f"sleep $(awk -v t={wait_until:.3f} -v n=$(date +%s.%N) 'BEGIN {{ d = t - n; print (d > 0 ? d : 0) }}')"
    labels = [word for key, value in of.host.labels.items() for word in ("--label", f"{key}={value}")]
    record = [*plan.tcpwhy, "record", "-o", "-", "--for", f"{round(plan.length_s * 1000)}ms", *labels, *plan.record]
    address, name = of.host.address, parts.names[of.host.address]
    command = _ssh(plan, of.host, f"{pause}; exec {shlex.join(record)}")
    began = time.monotonic()
    until = max(0.0, start.timestamp() - time.time()) + plan.length_s + GRACE_S
    pipe = subprocess.PIPE
    try:
        with Share(room) as share:
            with ending.child(command, stdout=pipe, stderr=pipe, bufsize=0) as ssh, _bounded(ssh, until) as heard:
                assert ssh.stdout  # noqa: S101
                size = _copy(ssh.stdout, parts.file(name), share)
                code = ssh.wait()
            if heard.too_late:
                raise UnfitError(f"did not end within {until:.0f} s")
            if code or not size:
                raise UnfitError(heard.words() or f"ended with {code}")
            parts.keep(of.host, say)
    except UnfitError as e:
        parts.drop(name)
        raise UnfitError(f"{address}: {e}") from None
    except OSError as e:
        parts.drop(name)
        raise UnfitError(f"{address}: writing {plan.output / name}: {e.strerror}; name another -o") from None
    took = time.monotonic() - began
    say(f"{shown(address)}: {size / 1e6:.1f} MB in {took:.0f} s -> {name}")
    return address


def _copy(source: IO[bytes], out: IO[bytes], share: Share) -> int:
    """Copies what comes; who sends more than there is room for, or than a recording has, is not waited for."""
    size = 0
    while chunk := source.read(CHUNK):
        size += len(chunk)
        if size > MOST_BYTES:
            raise UnfitError(f"sent more than the {MOST_BYTES >> 30} GiB that a recording may have")
        try:
            share.take(len(chunk))
        except UnfitError as e:
            raise UnfitError(f"{e}: record for a shorter time, or name another -o") from None
        out.write(chunk)
    out.flush()
    return size


def _last_words(source: IO[bytes], said: list[bytes]) -> None:
    """The end of what a program says, however much that is."""
    with contextlib.suppress(OSError, ValueError):
        while chunk := source.read(4096):
            said.append(chunk)
            del said[:-2]


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


def overlap(at: Path, ahead_s: dict[Path, float], say: Say = lambda _: None) -> list[str]:
    """How far these recordings are of the same seconds, by the clock of this machine."""
    try:
        store = Store(at, say=say)
    except (UnfitError, OSError) as e:
        # What was recorded is there all the same.
        return [f"not read: {shown(e)}"]
    with contextlib.closing(store):
        return _overlap(store, ahead_s)


def _overlap(store: Store, ahead_s: dict[Path, float]) -> list[str]:
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
