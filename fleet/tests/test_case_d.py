"""Case D over 20 recorded runs: 14 with a backlog of 5, six of the same load once it is raised; takes two minutes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tcpwhy_fleet
from tcpwhy_fleet import blame
from tcpwhy_fleet.cli import main

from . import lab

pytestmark = pytest.mark.case
# Seeds of which the lab applies the advice and runs the same load again: a recording of each.
MENDED = range(1, 7)
OTHERS = range(7, 15)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if why := lab.why_not("tcpwhy-lab"):
        pytest.fail(why)
    at = tmp_path_factory.mktemp("runs")
    for seed in [*MENDED, *OTHERS]:
        command = [str(lab.BUILT / "tcpwhy-lab"), "lab", "run", "syn-cookies", "--seed", str(seed), "--keep", str(at)]
        # Whether explain is right there is the lab's own test.
        subprocess.run([*command, *(["--fix"] if seed in MENDED else [])], capture_output=True, check=False)
    return at


def test_slow_ones_are_those_of_syn_cookies(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tcpwhy_fleet.open(runs) as fleet:
        assert fleet.rows("SELECT COUNT(*) AS n FROM recordings") == [{"n": 20}]
        answers = blame.ask(fleet, "slow")
    answer = next(a for a in answers if "of pool to port 7000" in a.says)
    said = "\n".join(blame.lines(answer))
    (one,) = answer.separate
    names = {(s.attribute, s.value) for s in [one.best, *one.same]}
    assert names >= {("made from a SYN cookie", "yes"), ("SACK", "no"), ("window scaling", "no")}, said
    assert ("backlog of the listener", "5") in {(s.attribute, s.value) for s in [*one.same, *one.also]}, said
    assert one.best.precision == 1.0, said
    assert one.best.recall > 0.9, said
    main(["blame", str(runs)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("SLOW CONNECTIONS:"), lines
    assert "lack SACK and window scaling and were made from SYN cookies" in lines[3], lines
