"""The verbs of the command: what they ask, and where they print it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from . import blame as blaming
from . import collect as collecting
from . import ends as both_ends
from . import explained, output
from . import fetch as fetching
from . import findings as merging
from . import report as reporting
from .about import of_what, unexplained
from .fleet import Fleet, open_fleet
from .output import FORMATS, tell
from .schema import CATALOG, tables
from .target import Target
from .text import plural, shown
from .views import views

__all__ = ["BLAMED", "FORMATS", "Refused"]
BLAMED = tuple(blaming.QUESTIONS)
# What an engine refuses of a query.
Refused = duckdb.Error


def say(text: str) -> None:
    """Tells of the work, beside the answer; names that are in it act on no terminal."""
    print(shown(text), file=sys.stderr, flush=True)


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[Fleet]:
    """The fleet that the user names; what is left out of it is said at the end."""
    with open_fleet(args.recordings, engine=args.engine, store=args.store, memory=args.memory, say=say) as fleet:
        yield fleet
        left_out = fleet.left_out_lines()
        if left_out:
            say(f"left out {plural(len(left_out), 'file')}:")
            for line in left_out:
                say(f"  {line}")


def collect(args: argparse.Namespace) -> int:
    """Records on many hosts, or fetches what is there."""
    if args.source:
        fetching.fetch(args.source, args.output, say)
    else:
        done = collecting.collect(collecting.Plan.of(args), say)
        if not done:
            return 1
    if args.no_explain:
        return 0
    # What there is to say of the recordings was said.
    return _explain(args.output, "tcpwhy", again=False, quiet=not args.source)


def explain(args: argparse.Namespace) -> int:
    """Explains what was not explained yet."""
    return _explain(args.recordings, args.tcpwhy, again=args.again, store=args.store)


def _explain(at: Path, tcpwhy: str, *, again: bool, store: Path | None = None, quiet: bool = False) -> int:
    try:
        done = explained.explain(at, shlex.split(tcpwhy), again=again, say=say, store=store, quiet=quiet)
    except FileNotFoundError:
        say(f"not explained: there is no {tcpwhy} on this machine; where there is: tcpwhy-fleet explain {at}")
        return 0
    say(f"explained {plural(done, 'recording')}")
    return 0


def findings(args: argparse.Namespace) -> int:
    """All hosts' findings, merged."""
    with opened(args) as fleet:
        about = of_what(fleet)
        found = merging.merged(fleet)
        if args.json:
            for finding in found:
                print(json.dumps(finding.as_json()))
            return 0
        tell([about, *unexplained(fleet), "", *merging.lines(found)])
    return 0


def ends(args: argparse.Namespace) -> int:
    """Both ends of connections."""
    with opened(args) as fleet:
        about = of_what(fleet)
        found = both_ends.read(fleet)
        if args.json:
            for kind in ("matched", "clocks", "losses", "slow"):
                for row in getattr(found, kind):
                    print(json.dumps({"type": kind, **row}, default=float))
            return 0
        tell([about, *both_ends.lines(found)])
    return 0


def blame(args: argparse.Namespace) -> int:
    """What separates slow from fast."""
    with opened(args) as fleet:
        about = of_what(fleet)
        answers = [answer for question in args.of or BLAMED for answer in blaming.ask(fleet, question)]
        # What something separates is told first, what is well last.
        answers.sort(key=lambda answer: (not answer.separate, not answer.bad))
        if args.json:
            for answer in answers:
                print(json.dumps(answer.as_json()))
            return 0
        tell([about])
        for answer in answers:
            tell(["", *blaming.lines(answer)])
        tell([""])
    return 0


def sql(args: argparse.Namespace) -> int:
    """One query, or a prompt."""
    query = args.query
    if query is None and not sys.stdin.isatty():
        query = sys.stdin.read()
    target = Target(args.output) if args.output else None
    output.look(args.format, target)
    with opened(args) as fleet:
        if query is not None:
            output.write(fleet.sql(query), args.format, target)
            return 0
        _prompt(fleet, args.format)
    return 0


def _prompt(fleet: Fleet, form: str) -> None:
    say("SQL over the views and tables that `tcpwhy-fleet views` lists; a query ends with ;, Ctrl-D leaves")
    lines: list[str] = []
    while True:
        try:
            lines.append(input("fleet> " if not lines else "  ...> "))
        except EOFError:
            print()
            return
        if not lines[-1].rstrip().endswith(";"):
            continue
        query, lines = "\n".join(lines).rstrip().removesuffix(";"), []
        try:
            output.write(fleet.sql(query), form if form != "parquet" else "table", None)
        except (duckdb.Error, ValueError, RuntimeError) as e:
            say(shown(e))


def views_(args: argparse.Namespace) -> int:
    """What can be asked."""
    if args.name is None:
        for view in views().values():
            print(f"{view.name:16} {view.says}")
        print()
        for table in tables().values():
            print(f"{table.name:16} {table.says.split('. ')[0].rstrip('.')}.")
        print(f"\nand what is known of recordings: {', '.join(CATALOG)}")
        return 0
    if args.name in views():
        columns = list(views()[args.name].columns)
        print(views()[args.name].says)
    elif args.name in tables():
        of = tables()[args.name]
        columns = [(c.stored_name, "ns" if c.is_moment else c.unit, c.says) for c in of.columns]
        columns = [("host", "text", "Host."), ("rec", "text", "Recording."), *columns]
        print(of.says)
    else:
        raise ValueError(f"no view or table is called {args.name}")
    for name, unit, says in columns:
        print(f"  {name:22} {unit:16} {says}")
    return 0


def report(args: argparse.Namespace) -> int:
    """One HTML file."""
    target = Target(args.output)
    with opened(args) as fleet:
        page = reporting.page(fleet)
        with target.opened() as out:
            out.write(page.encode("utf-8", "replace"))
        say(f"wrote {args.output}")
    return 0
