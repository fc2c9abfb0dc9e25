"""Processes that do what hostile files may end: one that dies or hangs costs the file that it was at."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

TIMEOUT_S = 600.0
Job = dict[str, Any]


class Worker:
    """One process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tcpwhy_fleet.ingest"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )

    def ask(self, job: Job, timeout: float) -> dict[str, Any]:
        """Has a job done; what is wrong with its file is under `unfit`."""
        process = self.process
        assert process.stdin and process.stdout  # noqa: S101
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                line = process.stdout.readline() if selector.select(timeout) else ""
        except BrokenPipeError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            if "bug" in answer:
                raise RuntimeError(f"a bug of tcpwhy-fleet; please report it:\n{answer['bug']}")
            return answer
        self.end()
        return {"unfit": "reading it ended the process that read it: damaged, or too large"}

    def end(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked again."""
        return self.process.poll() is None


def run(jobs: Iterable[Job], done: Callable[[Job, dict[str, Any]], None], timeout: float = TIMEOUT_S) -> None:
    """Does all jobs, on all CPUs; `done` is called with each and its answer."""
    waiting = deque(jobs)
    if not waiting:
        return
    # Starting one costs as much as a few small recordings.
    count = min(1 + len(waiting) // 4, os.cpu_count() or 1)
    workers = [Worker() for _ in range(count)]
    running: dict[Future[dict[str, Any]], tuple[int, Job]] = {}
    try:
        with ThreadPoolExecutor(count) as threads:
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
                    done(job, future.result())
    finally:
        for worker in workers:
            worker.end()
