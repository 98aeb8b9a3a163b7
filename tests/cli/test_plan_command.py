"""`hexveil plan`: short, narrow, and in words."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hexveil as hv
from cli.conftest import use_labels
from hexveil.cli.output import method_table
from hexveil.planning.method_comparison import ComparisonRow


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
@pytest.mark.usefixtures("here")
def test_a_private_interval_is_said(call, okay):
    """Its price and what is assumed of it."""
    said = okay("plan run.toml --set plan.clipping_range=private --epsilon 8")
    text = " ".join(said.out.split())
    assert "Clipping range users' averages are clipped to their quantiles" in text
    assert "not a bound" in text
    wrong = call("plan run.toml --set plan.clipping_range=some")
    assert (wrong.code, "--set plan.clipping_range" in wrong.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("statistics", ["mean,variance", "sd"])
def test_variances_under_an_interval_are_said(here, call, statistics):
    """How far squares count, and what the mean has of a cell's loss."""
    asked = f"plan run.toml --set plan.statistics={statistics} --epsilon 8"
    text = " ".join(
        call(asked, "--set plan.clipping_range=private --set plan.split=0.25").out.split()
    )
    assert re.search(r"Second moments are clipped at [\d.]+ half-widths from its centre", text)
    assert "the mean takes 25% of a cell's loss" in text
    plain = call("plan run.toml --set plan.clipping_range=private --epsilon 8").out
    assert "Second moments" not in plain
    assert "distances" not in plain


@pytest.mark.slow
def test_methods_beside_a_plan_with_an_interval_are_themselves(here, call):
    """The table of methods shows the others as they are without a clipping range."""
    asked = ("plan run.toml --epsilon 8 --compare --json",)
    plain, more = (
        json.loads(call(asked, f"--set plan.clipping_range={way}").out)["methods"]
        for way in ("bounds", "private")
    )
    assert more[0]["average"] != plain[0]["average"]
    assert more[1:] == plain[1:]


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


def test_labels_have_no_coarser_grid(here, okay):
    """With labels the plan says what a cell is, and nothing of resolutions."""
    use_labels(here, "lat")
    said = okay("plan run.toml")
    assert "combinations of lat" in said.out
    assert "coarser" not in said.out


@pytest.mark.slow
def test_prices_are_compared_at_the_same_errors(here, call):
    """With a target the joint plan's certificate is about its price, the least of all."""
    options = ("plan run.toml --compare --set plan.target_error=2%",)
    found = json.loads(call(options, "--json").out)["methods"]
    assert [line["method"] for line in found] == ["joint", "per-cell", "clip-user", "equal-split"]
    assert found[0]["epsilon"] == min(line["epsilon"] for line in found)
    assert all(line["worst"] <= 0.02 * 65 * (1 + 1e-9) for line in found)
    assert re.search("joint, max .* price [0-9.]+ \\(gap [0-9.]+%\\)", call(options).out)


@pytest.mark.slow
def test_a_method_that_cannot_is_said_in_the_table(here, call, okay):
    """Its line has no figures, and a sentence below says why; the others stand."""
    options = "--set plan.error=sum --set plan.statistics=mean,variance --set plan.target_error=600"
    said = okay("plan run.toml --compare", options)
    lines = {line.split("  ")[0]: line for line in said.out.splitlines()}
    for line in json.loads(call("plan run.toml --compare", options, "--json").out)["methods"]:
        name = "joint, max" if line["method"] == "joint" else line["method"]
        assert ("not possible" in lines[name]) == (line["trouble"] is not None)
        assert (f"{name} is not possible: " in said.out) == (line["trouble"] is not None)


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
        else:
            table = pq.read_table(file)
            pq.write_table(table.slice(0, table.num_rows - 1), file)
        said = call("release run.toml --from-plan", edited)
        assert (said.code, said.out) == (2, "")
        assert said.err.count("\n") == 1
        assert edited in said.err
        assert not (here / "map").exists()
        assert not (here / "ledger.sqlite").exists()


def test_help_says_what_to_keep_for_tomorrow(call):
    """A plan fits its records; the goal fits any."""
    for command in ("plan", "release"):
        said = " ".join(call(command, "--help").out.split())
        assert "For tomorrow's records keep the goal" in said


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


@pytest.mark.slow
def test_a_city_is_proposed_a_grid_that_holds(here, call):
    """On a simulated city: the grid that is proposed is planned with the error that is named."""
    city = "--users 30 --days 4 --seed 2 --interval 15min"
    assert call("simulate", city, "--out city.parquet").code == 0
    options = (
        "city.parquet --user license_plate --value speed --bounds 0,65 --time observationDateTime",
        "--location location.coordinates --timezone Asia/Kolkata --set cells.slot=pooled",
        "--set read.privacy_unit=user-day --epsilon 2 --set plan.clipping_range=auto --json",
    )
    said = json.loads(call("plan", options, "--timeslot 6h --resolution 6").out)
    chosen = said["proposed"]
    assert chosen["halved"], said["proposal"]
    grid = f"--timeslot {chosen['timeslot'] or 'none'} --resolution {chosen['resolution']}"
    again = call("plan", options, "--no-grids", grid)
    found = json.loads(again.out)
    assert (found["cells"], found["users"]) == (chosen["cells"], chosen["users"])
    assert found["mean_error"] == pytest.approx(chosen["predicted_error"], rel=0.1)
    assert found["mean_error"] < found["baseline_error"] / 2


# ---- The table of `plan --compare` ----


JOINT = ComparisonRow(
    "joint", "max", epsilon=0.99999, claimed=2.5, worst=17.8, average=17.8, median=17.8,
    shrunk=1234, better=14, certifies="max error", lower_bound=17.7699, gap=0.001721,
)  # fmt: skip


def test_bounds_are_rounded_to_the_safe_side(capsys):
    """The price and the gap are rounded up, the lower bound down."""
    method_table.show([JOINT], "planning error in mph")
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("joint, max"))
    assert line.split() == [
        "joint,", "max", "1", "2.5", "17.8", "17.8", "17.8", "1,234", "14", "worst", "17.7",
        "(gap", "0.173%)",
    ]  # fmt: skip


def test_a_method_that_cannot_says_so_and_why(capsys):
    """It has no figures in its line, and its reason stands below the table."""
    trouble = 'method "clip-user" needs the same bounds in every cell.'
    method_table.show([JOINT, ComparisonRow("clip-user", "max", trouble=trouble)], "planning error")
    said = capsys.readouterr().out
    line = next(x for x in said.splitlines() if x.startswith("clip-user "))
    assert line.split() == ["clip-user", *"-------", "not", "possible"]
    assert f"clip-user is not possible: {trouble}\n" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "planning error in km/h"),
        ({"statistics": "sd"}, "planning error in squared km/h"),
        ({"statistics": ("mean", "sd")}, "the average of both planning errors, each relative to"),
        (
            {"statistics": ("mean", "sd"), "objective": "max"},
            "the larger of both planning errors, each relative to",
        ),
    ],
)
def test_the_measure_is_what_the_plan_is_judged_by(options, said):
    """One statistic has its unit; two are shares, or their sum."""
    occupancy = hv.Occupancy.from_dense([[3, 1], [1, 2]] * 20)
    plan = hv.plan(occupancy, bounds=(0, 10), epsilon=1, advise=False, **options)
    assert method_table.measure(plan, "km/h").startswith(said)
    assert not method_table.measure(plan, "").endswith(" in ")
