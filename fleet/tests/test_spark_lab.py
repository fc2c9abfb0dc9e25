"""The eight hosts of the lab as `collect` brings them: Spark gives the rows and the words that DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet, blame, ends, findings, report
from tcpwhy_fleet.views import views

from .cases import query, text
from .reach import Collected
from .test_spark import MASTER

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def both(collected: Collected) -> Iterator[tuple[Fleet, Fleet]]:
    with tcpwhy_fleet.open(collected.at) as duck, tcpwhy_fleet.open(collected.at, engine=MASTER) as spark:
        yield duck, spark


@pytest.mark.parametrize("view", views())
def test_gives_the_same_rows(view: str, both: tuple[Fleet, Fleet]) -> None:
    duck, spark = (text(of.sql(query(view))) for of in both)
    assert spark == duck


def test_answers_alike(both: tuple[Fleet, Fleet]) -> None:
    duck, spark = both
    assert findings.lines(findings.merged(spark)) == findings.lines(findings.merged(duck))
    assert ends.lines(ends.read(spark)) == ends.lines(ends.read(duck))
    for question in blame.QUESTIONS:
        assert blame.ask(spark, question) == blame.ask(duck, question)
    assert report.page(spark) == report.page(duck)
