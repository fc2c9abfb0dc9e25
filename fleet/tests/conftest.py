"""What tests share: the small fleet, and the switch that writes what is expected anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet

from . import lab, reach, small_fleet
from .reach import Collected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what views give as what is expected")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the recordings of the small fleet."""
    at = tmp_path_factory.mktemp("small")
    small_fleet.make(at)
    return at


@pytest.fixture(scope="session")
def fleet(small: Path) -> Iterator[Fleet]:
    """The small fleet, opened."""
    with tcpwhy_fleet.open(small) as opened:
        yield opened


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """The eight hosts of the lab as `collect` brings them."""
    if why := lab.why_not():
        pytest.fail(why)
    return reach.collect_all(tmp_path_factory.mktemp("lab"))
