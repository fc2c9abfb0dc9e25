"""How the command ends when it is told to: children first, then what is temporary, in two seconds at most."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# From TERM to KILL, and from the signal to the end whatever still runs.
PATIENCE_S, AT_MOST_S = 0.5, 1.5


class Ended(BaseException):
    """A signal came: what is at work gives up, and cleans up after itself."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


_lock = threading.RLock()
_children: set[subprocess.Popen[Any]] = set()
_temporary: set[Path] = set()
# The signal that came, and whether the main thread knows of it.
_came = 0
_told = False


@contextlib.contextmanager
def held() -> Iterator[None]:
    """While this lasts, nothing is removed: what is made in it is noted before the end comes."""
    with _lock:
        yield


def goes(path: Path) -> None:
    """Notes that something is temporary."""
    with _lock:
        _temporary.add(path)


def gone(path: Path) -> None:
    """It is no more, or it is to stay."""
    with _lock:
        _temporary.discard(path)


def came() -> int:
    """The signal that came; 0 for none."""
    return _came


def start(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Starts a program. It reads nothing unless it is given something to read, as it shares the terminal with us;
    and it has a process group of its own, so that what it starts ends with it."""
    with _lock:
        if _came:
            raise Ended(_came)
        process = subprocess.Popen(command, **{"stdin": subprocess.DEVNULL, "process_group": 0, **options})
        _children.add(process)
    return process


def drop(process: subprocess.Popen[Any]) -> None:
    """Ends a program that was started, where it still runs, and closes its pipes."""
    end([process])
    with _lock:
        _children.discard(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def child(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Runs a program while this lasts."""
    process = start(command, **options)
    try:
        yield process
    finally:
        drop(process)


def end(processes: list[subprocess.Popen[Any]]) -> None:
    """Ends those that still run, all at once."""
    running = [process for process in processes if process.poll() is None]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in running:
            _signal(process, number)
        until = time.monotonic() + PATIENCE_S
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
        running = [process for process in running if process.returncode is None]


def _signal(process: subprocess.Popen[Any], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@contextlib.contextmanager
def on_signals() -> Iterator[None]:
    """While this lasts, INT, TERM and HUP end what is at work: the main thread gets an `Ended`."""
    global _came, _told
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Under nohup it is to go on when the terminal hangs up.
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    numbers = [number for number in SIGNALS if hangs_up or number != signal.SIGHUP]
    read, write = os.pipe()
    os.set_blocking(write, False)
    done = threading.Event()
    _came, _told = 0, False
    older = {number: signal.signal(number, _on_signal) for number in numbers}
    older_fd = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(read, done), daemon=True, name="signals")
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(older_fd)
        for number, handler in older.items():
            signal.signal(number, handler)
        done.set()
        # It is woken once more, to see that all is done.
        os.write(write, b"\0")
        watcher.join()
        os.close(read)
        os.close(write)
        _came, _told = 0, False


def _on_signal(number: int, _: object) -> None:
    """In the main thread, as soon as it runs Python again."""
    global _came, _told
    # The first one counts: another one does not disturb who cleans up.
    if not _told:
        _told, _came = True, number
        raise Ended(number)


def _watch(read: int, done: threading.Event) -> None:
    """Ends the children when a signal comes, and all of it where the main thread is held up."""
    global _came
    number = 0
    while not number:
        number = next((n for n in os.read(read, 64) if n in SIGNALS), 0)
        if done.is_set():
            return
    until = time.monotonic() + AT_MOST_S
    with _lock:
        # From now on no child is started, whatever the main thread is at.
        _came = number
        running = list(_children)
    end(running)
    if not done.wait(max(0.0, until - time.monotonic())):
        remove_temporary()
        os._exit(128 + number)


def remove_temporary() -> None:
    """Removes all that is temporary."""
    with _lock:
        for path in _temporary:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        _temporary.clear()
