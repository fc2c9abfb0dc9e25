"""What tests share: the small fleet, and the switch that writes what is expected anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import Fleet

from . import lab, reach, small_fleet
from .reach import Collected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="write what views give as what is expected")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache, and a place for the key, of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield Path(os.environ["XDG_CACHE_HOME"])


@pytest.fixture
def in_time() -> Iterator[None]:
    """What hangs fails."""

    def late(*_: object) -> None:
        raise TimeoutError("this hangs")

    former = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


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
