"""Processes that do what hostile files may end: one that dies or hangs costs the file that it was at."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from . import ending

TIMEOUT_S = 600.0
Job = dict[str, Any]
Answer = dict[str, Any]
UNTIL_CHANGED = "it is read again when it has changed (touch)"


class Worker:
    """One process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tcpwhy_fleet.ingest", str(os.getpid())]
        pipe = subprocess.PIPE
        # Ctrl-C is for us: that a worker ends by it would look as if its file had ended it.
        self.process = ending.start(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, bufsize=1)

    def ask(self, job: Job, timeout: float) -> Answer:
        """Has a job done; what is wrong with its file is under `unfit`."""
        process = self.process
        assert process.stdin and process.stdout  # noqa: S101
        late = False
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                late = not selector.select(timeout)
            answer: Answer = json.loads(process.stdout.readline() if not late else "")
        except (BrokenPipeError, ValueError):
            pass
        else:
            return answer
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if late else 1)
        killed = process.returncode == -signal.SIGKILL
        self.end()
        if late:
            return {"unfit": f"not read within {timeout:g} s; {UNTIL_CHANGED}"}
        if killed:
            # By the kernel, which was short of memory, or by somebody.
            return {"unfit": "the process that read it was killed", "for_now": True}
        return {"unfit": f"reading it ended the process that read it: damaged, or too large; {UNTIL_CHANGED}"}

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()
        ending.drop(self.process)

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked again."""
        return self.process.poll() is None


def run(jobs: Iterable[Job], done: Callable[[Job, Answer], None], timeout: float = TIMEOUT_S) -> None:
    """Does all jobs, on all CPUs; `done` is called with each and its answer."""
    waiting = deque(jobs)
    if not waiting:
        return
    # Starting one costs as much as a few small recordings.
    count = min(1 + len(waiting) // 4, os.cpu_count() or 1)
    workers = [Worker() for _ in range(count)]
    running: dict[Future[Answer], tuple[int, Job]] = {}
    try:
        with ThreadPoolExecutor(count) as threads:
            try:
                free = list(range(count))
                while waiting or running:
                    while waiting and free:
                        at, job = free.pop(), waiting.popleft()
                        if not workers[at].is_alive:
                            workers[at] = Worker()
                        running[threads.submit(workers[at].ask, job, timeout)] = (at, job)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        at, job = running.pop(future)
                        free.append(at)
                        answer = future.result()
                        if number := ending.came():
                            # It may have been ended by us.
                            raise ending.Ended(number)
                        done(job, answer)
            finally:
                # Their threads are waited for, and wait for them.
                for worker in workers:
                    worker.process.kill()
    finally:
        for worker in workers:
            worker.end()
