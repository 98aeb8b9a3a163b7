"""`hexveil plan`: short, narrow, and in words."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hexveil as hv


@pytest.mark.slow
def test_a_plan_is_short_and_in_words(here, okay):
    """At most 25 lines of at most 100 characters, without a Greek letter; nothing is spent."""
    said = okay("plan run.toml")
    lines = said.out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert not re.search("[\u0370-\u03ff]", said.out)
    labels = "Cells,Privacy cost,Expected error,Counting cells,Useful cells,A month"
    for label in labels.split(","):
        assert any(line.startswith(label) for line in lines)
    text = " ".join(said.out.split())
    assert "a factor of at most 2.72." in text
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]


@pytest.mark.slow
def test_json(here, call):
    """--json prints the same for machines."""
    said = json.loads(call("plan run.toml --json").out)
    assert (said["cells"], said["users"], said["records"]) == (3, 400, 1200)
    assert said["epsilon"] <= said["epsilon_requested"] == 1
    assert said["beats_constant"]
    assert said["warning"] is None


def test_advice_is_a_line_of_the_command_and_no_warning_of_python(here, okay, recwarn):
    """A grid that is too fine is said once, in words."""
    said = okay("plan run.toml --epsilon 0.01")
    assert (said.out + said.err).count("too fine") == 1
    assert [str(one.message) for one in recwarn if "too fine" in str(one.message)] == []


def test_a_plan_needs_a_price(here, refuse):
    """Without epsilon it is asked for."""
    (here / "run.toml").write_text((here / "run.toml").read_text().replace("epsilon = 1", ""))
    said = refuse("plan run.toml")
    assert said.err == (
        "hexveil: epsilon (in [plan], or --epsilon) is needed: the largest loss of any unit; or "
        "target_error (in [plan]): the largest errors; give exactly one of them.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["--epsilon 0.0001", "--set plan.target_error=40"])
def test_a_plan_of_constants_costs_nothing(here, okay, goal):
    """Where no reading is used no factor and no month are told, and a release books nothing."""
    said = okay("plan run.toml", goal)
    assert re.search(
        "^Privacy cost +0 \\(epsilon\\): every cell publishes a constant", said.out, re.MULTILINE
    )
    assert "factor" not in said.out
    assert "A month" not in said.out
    done = okay("release run.toml", goal, "--set release.accept_noise=true")
    assert "nothing was booked" in done.out
    assert hv.Ledger("ledger.sqlite", dataset="buses", budget=2).spent == 0


@pytest.mark.slow
def test_paths_of_options_start_where_they_are_typed(here, call, okay, monkeypatch):
    """A plan is written beside the reader, not beside the run file."""
    (here / "desk").mkdir()
    monkeypatch.chdir(here / "desk")
    said = okay("plan", here / "run.toml", "--save reviewed --json")
    assert [p.name for p in (here / "desk").iterdir()] == ["reviewed"]
    assert [Path(one).name for one in json.loads(said.out)["files"]] == ["reviewed"]
    assert call("release ../run.toml --from-plan reviewed --out map").code == 0
    assert (here / "desk" / "map").is_dir()


@pytest.mark.slow
def test_methods_of_each_column_are_compared(here, call):
    """Each value column has its table, at its own loss."""
    table = pq.read_table(here / "buses.parquet")
    pq.write_table(table.append_column("delay", table["speed"]), here / "buses.parquet")
    columns = "--value speed --value delay --epsilon 9"
    found = json.loads(call("plan run.toml", columns, "--compare --json").out)["columns"]
    assert [len(one["methods"]) for one in found.values()] == [5, 5]
    shown = call("plan run.toml", columns, "--compare").out
    assert shown.count("at its own loss or targets:") == 2
    assert call("plan run.toml", columns, "--set plan.statistics=p50 --compare").code == 2
