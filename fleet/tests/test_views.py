"""Each view gives what it is to give, has the columns that it documents, and is written in SQL that engines share."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from tcpwhy_fleet import Fleet
from tcpwhy_fleet.views import closure, in_dialect, views

from .cases import CASES, EXPECTED, query, text


@pytest.mark.parametrize("case", CASES)
def test_gives(case: str, fleet: Fleet, request: pytest.FixtureRequest) -> None:
    given = text(fleet.sql(query(case)))
    path = EXPECTED / f"{case}.csv"
    if request.config.getoption("--bless"):
        EXPECTED.mkdir(exist_ok=True)
        path.write_text(given)
    assert given == path.read_text()


@pytest.mark.parametrize("name", views())
def test_documents_its_columns(name: str, fleet: Fleet) -> None:
    view, schema = views()[name], fleet.sql(f'SELECT * FROM "{name}"').schema
    assert [column for column, _, _ in view.columns] == schema.names
    assert view.says.endswith(".")
    for column, unit, says in view.columns:
        kind = schema.field(column).type
        is_text = unit in ("text", "address")
        assert is_text == pa.types.is_string(kind), f"{column} is {kind}"
        assert (unit == "yes/no") == pa.types.is_boolean(kind), f"{column} is {kind}"
        assert says.endswith("."), f"{column}: {says}"


@pytest.mark.parametrize("name", [name for name, view in views().items() if view.by_recording])
def test_rests_on_one_recording(name: str) -> None:
    # Of some recordings at a time it reads their tables: what is kept would be of all.
    order, _ = closure(views()[name].needs())
    assert not [other for other in order if views()[other].kept]


@pytest.mark.parametrize("name", views())
def test_is_portable(name: str) -> None:
    sql = views()[name].sql
    tree = sqlglot.parse_one(sql, read="duckdb")
    own = (exp.Qualify, exp.IgnoreNulls, exp.Filter, exp.Lambda, exp.Struct, exp.Pivot, exp.Unnest)
    assert not [type(node) for node in tree.find_all(*own)]
    assert not [join for join in tree.find_all(exp.Join) if join.args.get("method")]
    code = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    # A cast by ::, and what only one engine reads so.
    assert not re.search(r"\w::\w|\)::\w|\bGROUP BY ALL\b|\bEXCLUDE\b|\bASOF\b|\bANY_VALUE\b", code)


@pytest.mark.parametrize("dialect", ["spark", "bigquery", "trino", "clickhouse", "athena"])
def test_reads_in_other_dialects(dialect: str) -> None:
    for view in views().values():
        assert sqlglot.parse_one(in_dialect(view.sql, dialect), read=dialect)
