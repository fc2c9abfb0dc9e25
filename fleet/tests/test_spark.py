"""Spark, a real master and two executors, gives what DuckDB gives: the same cases against the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet, blame, ends, findings

from .cases import CASES, EXPECTED, query, text

pytestmark = pytest.mark.spark
MASTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def spark(small: Path) -> Iterator[Fleet]:
    with tcpwhy_fleet.open(small, engine=MASTER) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES)
def test_gives(case: str, spark: Fleet) -> None:
    assert text(spark.sql(query(case))) == (EXPECTED / f"{case}.csv").read_text()


def test_answers_alike(spark: Fleet, fleet: Fleet) -> None:
    assert findings.lines(findings.merged(spark)) == findings.lines(findings.merged(fleet))
    assert ends.lines(ends.read(spark)) == ends.lines(ends.read(fleet))
    for question in blame.QUESTIONS:
        assert blame.ask(spark, question) == blame.ask(fleet, question)
