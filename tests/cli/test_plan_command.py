"""`hexveil plan`: short, narrow, and in words."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.cli.commands import plan_command
from hexveil.planning.comparison import ComparisonRow


@pytest.mark.slow
def test_a_plan_is_short_and_in_words(here, okay):
    """At most 25 lines of at most 100 characters, without a Greek letter; nothing is spent."""
    said = okay("plan run.toml")
    lines = said.out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert not re.search("[\u0370-\u03ff]", said.out)
    labels = ("Cells", "Price", "Naive accounting", "Expected error", "Useful cells", "A month")
    for label in (*labels, "One step coarser"):
        assert any(line.startswith(label) for line in lines)
    text = " ".join(said.out.split())
    assert "a factor of at most 2.72." in text
    assert re.search(r"Grid Proposed: resolution \d, unit user: 3 cells", text)
    assert "Below half" not in text
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "epsilon"),
    [
        *(("user", epsilon) for epsilon in ("0.001", "1", "20")),
        ("user-day", "0.001"),
        ("user-week", "20"),
    ],
)
def test_a_plan_stays_short_when_it_warns(here, okay, unit, epsilon):
    """A warning, another privacy unit or price keeps the plan within 25 lines."""
    said = okay(
        f"plan run.toml --set read.privacy_unit={unit} --epsilon", epsilon,
        "--timeslot 1h --timezone Asia/Kolkata --set cells.slot=pooled",
    )  # fmt: skip
    assert len(said.out.splitlines()) <= 25
    assert ("too fine" in said.out) == (epsilon == "0.001")
    whom = {"user": "one user", "user-day": "one user on one day"}.get(unit, "one user in one week")
    assert f"had the values of {whom} been anything else" in " ".join(said.out.split())
    assert said.err == ""


@pytest.mark.slow
def test_json(here, call):
    """--json prints the same for machines, and names the proposed grid; --grids lists all."""
    said = json.loads(call("plan run.toml --json").out)
    assert said["proposal"].startswith(f"proposed: resolution {said['proposed']['resolution']}")
    assert (said["proposed"]["cells"], said["grids"]) == (3, None)
    assert said["cells"] == 3
    assert said["users"] == 400
    assert said["records"] == 1200
    assert said["epsilon"] <= said["epsilon_requested"] == 1
    assert said["beats_constant"]
    assert said["warning"] is None
    assert said["coarser"]["cells"] <= 3
    said = json.loads(call("plan run.toml --json --grids").out)
    # Without a clock there are no days.
    assert {one["privacy_unit"] for one in said["grids"]} == {"user"}
    assert sum(one["proposed"] for one in said["grids"]) == 1
    said = json.loads(call("plan run.toml --json --no-grids").out)
    assert (said["proposal"], said["proposed"], said["grids"]) == (None, None, None)


def test_a_plan_needs_a_price(here, refuse):
    """Without epsilon it is asked for."""
    (here / "run.toml").write_text((here / "run.toml").read_text().replace("epsilon = 1", ""))
    said = refuse("plan run.toml")
    assert said.err == (
        "hexveil: epsilon (in [plan], or --epsilon) is needed: the largest loss of any unit; or "
        "target_error (in [plan]): the largest errors; give exactly one of them.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "needs"),
    [
        ("--set plan.target_error=2%", "epsilon, not target_error."),
        ("--set plan.method=equal-split", 'method "joint", not "equal-split".'),
        ("--set plan.objective=max", 'objective "mean".'),
    ],
)
def test_it_says_why_there_can_be_no_private_interval(here, call, option, needs):
    """Where "auto" has nothing to choose from, the plan and the release say so."""
    said = call("plan run.toml --no-grids --set plan.clipping_range=auto", option)
    told = f'the bounds, although clipping_range is "auto": a private range needs {needs}'
    assert told in " ".join(said.out.split())
    if "objective=max" in option:  # said by one function for all reasons
        done = call("release run.toml --set plan.clipping_range=auto --out told", option)
        assert told in " ".join(done.out.split())
    assert "although clipping_range" not in call("plan run.toml --no-grids", option).out


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["--epsilon 0.0001", "--set plan.target_error=40"])
def test_a_plan_of_constants_costs_nothing(here, okay, goal):
    """Where no reading is used no factor and no month are told, and a release books nothing."""
    said = okay("plan run.toml", goal)
    assert re.search(
        "^Price +0 \\(epsilon\\): every cell publishes a constant", said.out, re.MULTILINE
    )
    assert "factor" not in said.out
    assert "A month" not in said.out
    done = okay("release run.toml", goal, "--set release.accept_noise=true")
    assert "nothing was booked" in done.out
    assert hv.Ledger("ledger.sqlite", dataset="buses", budget=2).spent == 0


@pytest.mark.slow
def test_paths_of_options_start_where_they_are_typed(here, call, okay, monkeypatch):
    """A plan and a curve are written beside the reader, not beside the run file."""
    pytest.importorskip("matplotlib")
    (here / "desk").mkdir()
    monkeypatch.chdir(here / "desk")
    said = okay("plan", here / "run.toml", "--save reviewed --curve curve --json")
    assert sorted(p.name for p in (here / "desk").iterdir()) == [
        "curve.png",
        "curve.svg",
        "reviewed",
    ]
    assert len(json.loads(said.out)["files"]) == 3
    assert call("release ../run.toml --from-plan reviewed --out map").code == 0
    assert (here / "desk" / "map").is_dir()


@pytest.mark.slow
def test_an_edited_plan_is_refused(here, call):
    """One sentence, exit 2, nothing written, nothing booked."""
    assert call("plan run.toml --no-grids --save reviewed").code == 0
    for name in ("plan.json", "arrays.bin", "cells.parquet", "users.parquet"):
        edited = f"edited-{name}"
        file = Path(shutil.copytree(here / "reviewed", here / edited)) / name
        if name == "plan.json":
            file.write_text(file.read_text().replace('"epsilon"', '"epsilom"'))
        elif name == "arrays.bin":
            file.write_bytes(file.read_bytes()[:-1])
        else:
            table = pq.read_table(file)
            pq.write_table(table.slice(0, table.num_rows - 1), file)
        said = call("release run.toml --from-plan", edited)
        assert (said.code, said.out) == (2, "")
        assert said.err.count("\n") == 1
        assert edited in said.err
        assert not (here / "map").exists()
        assert not (here / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--save nowhere/deep", "the folder nowhere/deep cannot be made"),
        ("--save .", "exists; a saved plan is never changed"),
        ("--grids --save saved --set privacy.delta=1e-6", "of one value column and of pure plans"),
    ],
)
def test_what_can_neither_be_saved_nor_compared_is_one_sentence(here, refuse, options, words):
    """Exit 2, one line, nothing written."""
    before = sorted(here.iterdir())
    said = refuse("plan run.toml", options)
    assert words in said.err
    assert said.err.count("\n") == 1
    assert sorted(here.iterdir()) == before


# ---- The table of `plan --compare` ----


JOINT = ComparisonRow("joint, max", figures={
    "epsilon": 0.99999, "claimed": 2.5, "worst": 17.8, "average": 17.8, "median": 17.8,
    "better": 14, "certifies": "max error", "lower_bound": 17.7699, "gap": 0.001721,
})  # fmt: skip


def test_bounds_are_rounded_to_the_safe_side(capsys):
    """The price and the gap are rounded up, the lower bound down."""
    plan_command.show_methods([JOINT], "planning error in mph")
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("joint, max"))
    assert line.split() == [
        "joint,", "max", "1", "2.5", "17.8", "17.8", "17.8", "14", "worst", "17.7",
        "(gap", "0.173%)",
    ]  # fmt: skip


def test_a_method_that_cannot_says_so_and_why(capsys):
    """It has no figures in its line, and its reason stands below the table."""
    trouble = 'method "clip-user" needs the same bounds in every cell.'
    plan_command.show_methods(
        [JOINT, ComparisonRow("clip-user", trouble=trouble)], "planning error"
    )
    said = capsys.readouterr().out
    line = next(x for x in said.splitlines() if x.startswith("clip-user "))
    assert line.split() == ["clip-user", *"------", "not", "possible"]
    assert f"clip-user is not possible: {trouble}\n" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize(("gain", "said"), [(1.257, "26%"), (0.99999, "0%")])
def test_rounding_shows_no_loss_where_nothing_is_lost(gain, said):
    """A gain is a share above an equal part; an error that is not proven has no figure."""
    row = {"predicted_error": 2.345, "proven_error": None, "cell_epsilon": 0.33333, "gain": gain}
    assert plan_command.mechanism_figures(row) == ["2.35", "-", "0.334", said]
