"""`tcpwhy-fleet`: many recordings as one question."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from . import commands, ending
from .text import shown
from .unfit import UnfitError

Run = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """What it says of arguments is shown: they may be names that others gave."""

    def error(self, message: str) -> NoReturn:
        super().error(shown(message))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = _Parser(prog="tcpwhy-fleet", description="One question to many tcpwhy recordings.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    shared = _Parser(add_help=False)
    shared.add_argument("recordings", type=Path, help="directory of recordings (NAME.tcpwhy, NAME.tcpw)")
    shared.add_argument("--engine", default="duckdb", help="duckdb (default), spark://HOST:PORT, sc://HOST:PORT")
    shared.add_argument(
        "--store",
        type=Path,
        help="where tables are kept by day and host (default: in RECORDINGS if it is yours alone, else in your cache)",
    )
    shared.add_argument("--memory", help="memory limit of DuckDB: 4GiB (default: half of the machine's)")

    def verb(name: str, run: Run, says: str, *, reads: bool = True) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=says, description=says, parents=[shared] if reads else [])
        made.set_defaults(run=run)
        return made

    made = verb("collect", commands.collect, "Record the same seconds on many hosts", reads=False)
    where = made.add_mutually_exclusive_group(required=True)
    where.add_argument("--hosts", type=Path, help="file of hosts: one per line, with labels: web1 rack=r1 role=web")
    where.add_argument(
        "--from", dest="source", metavar="URL", help="fetch recordings that are there: s3://, gs://, az://, a directory"
    )
    made.add_argument("-o", dest="output", type=Path, required=True, metavar="DIR", help="directory for the recordings")
    made.add_argument("--for", dest="length", default="30s", metavar="TIME", help="how long to record (default: 30s)")
    made.add_argument(
        "--at", metavar="WHEN", help="start time: 14:05:00, or +20s (default: once all hosts are reached)"
    )
    made.add_argument(
        "--tcpwhy", default="sudo -n tcpwhy", help="how tcpwhy is called on a host (default: sudo -n tcpwhy)"
    )
    made.add_argument("--record", default="", metavar="OPTIONS", help="options for tcpwhy record: '--with packets'")
    made.add_argument("--ssh", default="ssh", help="how ssh is called (default: ssh)")
    made.add_argument("--most", type=int, default=64, metavar="N", help="hosts reached at once (default: 64)")
    made.add_argument("--no-explain", action="store_true", help="do not explain the recordings now")

    made = verb("explain", commands.explain, "Explain recordings that are not yet explained, and keep the result")
    made.add_argument("--tcpwhy", default="tcpwhy", help="how tcpwhy is called on this machine")
    made.add_argument("--again", action="store_true", help="explain again what has been explained")

    made = verb("findings", commands.findings, "The findings of all hosts, each fault once, costliest first")
    made.add_argument("--json", action="store_true", help="one JSON object per line")
    made = verb("ends", commands.ends, "Both ends of every connection: clocks, losses, slow requests")
    made.add_argument("--json", action="store_true", help="one JSON object per line")
    made = verb("blame", commands.blame, "What separates the slow or lossy from the rest")
    made.add_argument("--of", choices=commands.BLAMED, action="append", help="the question (default: all)")
    made.add_argument("--json", action="store_true", help="one JSON object per line")

    made = verb("sql", commands.sql, "Ask in SQL: one query, or a prompt")
    made.add_argument("query", nargs="?", help="the query; without one, a prompt, or queries from standard input")
    made.add_argument("--format", choices=commands.FORMATS, default="table")
    made.add_argument("-o", dest="output", type=Path, metavar="FILE")

    made = verb("views", commands.views_, "The views and tables, and what their columns say", reads=False)
    made.add_argument("name", nargs="?", help="show this view column by column")

    made = verb("report", commands.report, "One HTML file: hosts by loss and delay, findings, what separates")
    made.add_argument("-o", dest="output", type=Path, required=True, metavar="FILE")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; gives its exit code."""
    args = parser().parse_args(arguments)
    try:
        with ending.on_signals():
            code = _run(args)
            # Whatever became of it: DuckDB makes an error of its own of it.
            return 128 + ending.came() if ending.came() else code
    except ending.Ended as e:
        # Between two lines.
        return 128 + e.number


def _run(args: argparse.Namespace) -> int:
    run: Run = args.run
    try:
        code = run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ending.Ended, KeyboardInterrupt):
        return 130
    except (UnfitError, ValueError, RuntimeError, OSError, commands.Refused) as e:
        if not ending.came():
            print(f"tcpwhy-fleet: {shown(e)}", file=sys.stderr)
        return 1
    except Exception as e:
        if not ending.came():
            print("tcpwhy-fleet: a bug of tcpwhy-fleet; please report it:", file=sys.stderr)
            for line in "".join(traceback.format_exception(e)).splitlines():
                print(shown(line), file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
