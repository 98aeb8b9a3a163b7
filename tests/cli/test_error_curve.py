"""`hexveil plan --curve`: loss against error."""

import re

import pytest

import hexveil as hv
from hexveil.cli.output import figures


def drawn(**options):
    """Return a small plan."""
    occupancy = hv.Occupancy.from_dense([[3, 1], [1, 2], [2, 2], [4, 1]] * 10)
    made = hv.plan(occupancy, bounds=(0, 10), advise=False, **({"epsilon": 1} | options))
    return made.single


def test_the_curve_falls_and_passes_the_plan():
    """More loss never means more error, and the marked plan lies on the line."""
    plan = drawn(objective="max")
    losses, errors = zip(*figures.points(plan), strict=True)
    assert list(losses) == sorted(losses)
    assert list(errors) == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 5
    middle = len(losses) // 2
    assert losses[middle] == pytest.approx(1.0)
    assert errors[middle] == pytest.approx(plan.worst_case_error, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["max", "mean"])
def test_targets_of_several_statistics_are_drawn_in_their_parts(objective, monkeypatch):
    """The plan meets its targets exactly there, and the joint line passes through it."""
    monkeypatch.setattr(figures, "POINTS", 7)
    goals = {"mean": 1, "variance": "5%"}
    plan = drawn(epsilon=None, target_error=goals, statistics=("mean", "sd"), objective=objective)
    assert figures.objective_error(plan, plan) == pytest.approx(1.0, rel=2e-3)
    losses, errors = zip(*figures.points(plan), strict=True)
    assert list(losses) == sorted(losses)
    assert any(loss == pytest.approx(float(plan.epsilon), rel=1e-6) for loss in losses)
    assert min(errors) < 1 < max(errors)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["$x_$ km/h", "µg/m³", "\u4e00"])
def test_any_unit_is_drawn_as_text(unit):
    """Neither formulas nor letters that a font lacks stop a figure or warn."""
    pytest.importorskip("matplotlib")
    assert set(figures.images(drawn(), unit)) == {"png", "svg"}


@pytest.mark.slow
def test_the_command_draws_two_new_files(here, refuse, okay):
    """Both are named, and an existing one is not written over."""
    pytest.importorskip("matplotlib")
    said = okay("plan run.toml --curve error_curve.png")
    assert "error_curve.png, error_curve.svg" in said.out
    assert {p.name for p in here.iterdir()} >= {"error_curve.png", "error_curve.svg"}
    again = refuse("plan run.toml --curve error_curve.svg")
    assert again.err == "hexveil: error_curve.png exists; name a new file.\n"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("error_curve.pdf", "--curve writes .png and .svg; error_curve.pdf has another ending."),
        (".", ". is a folder; name a new file for the curve."),
        ("none/curve.png", "the folder of none/curve.png does not exist; create it first."),
    ],
)
def test_what_cannot_be_drawn_is_refused_first(here, call, name, sentence):
    """Nothing is read or written before."""
    pytest.importorskip("matplotlib")
    before = sorted(here.iterdir())
    said = call("plan run.toml --curve", name)
    assert (said.code, said.err) == (2, f"hexveil: {sentence}\n")
    assert sorted(here.iterdir()) == before


def test_without_matplotlib_one_sentence_says_so(here, refuse, monkeypatch):
    """The extra is named."""
    monkeypatch.setattr("hexveil.base.optional_packages.is_installed", lambda _: False)
    said = refuse("plan run.toml --curve error_curve.png")
    assert re.fullmatch(r"hexveil: matplotlib is not installed: .*plots.*\n", said.err)
    assert not (here / "error_curve.svg").exists()
