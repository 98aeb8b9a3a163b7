"""`hexveil plan --curve`: loss against error."""

import re

import pytest

import hexveil as hv
from hexveil.cli import curve


def drawn(**options):
    """Return a small plan."""
    occupancy = hv.Occupancy.from_dense([[3, 1], [1, 2], [2, 2], [4, 1]] * 10)
    return hv.plan(occupancy, bounds=(0, 10), advise=False, **({"epsilon": 1} | options))


@pytest.mark.parametrize("statistics", ["mean", ("mean", "sd"), "variance"])
def test_the_same_plan_gives_the_same_image(statistics):
    """PNG and SVG hold no date; both are images."""
    pytest.importorskip("matplotlib")
    plan = drawn(statistics=statistics)
    one, other = curve.images(plan, "km/h"), curve.images(plan, "km/h")
    assert one == other
    assert one["png"].startswith(b"\x89PNG")
    assert b"<svg" in one["svg"]


def test_the_curve_falls_and_passes_the_plan():
    """More loss never means more error, and the marked plan lies on the line."""
    plan = drawn(objective="max")
    losses, errors = zip(*curve.points(plan), strict=True)
    assert list(losses) == sorted(losses)
    assert list(errors) == sorted(errors, reverse=True)
    middle = len(losses) // 2
    assert losses[middle] == pytest.approx(1.0)
    assert errors[middle] == pytest.approx(plan.max_error, rel=1e-2)


def test_the_command_draws_two_new_files(here, call):
    """Both are named, and an existing one is not written over."""
    pytest.importorskip("matplotlib")
    said = call("plan", "run.toml", "--curve", "curve.png")
    assert said.code == 0, said.err
    assert "curve.png, curve.svg" in said.out
    assert {p.name for p in here.iterdir()} >= {"curve.png", "curve.svg"}
    again = call("plan", "run.toml", "--curve", "curve.svg")
    assert again.code == 2
    assert again.err == "hexveil: curve.png exists; name a new file.\n"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("curve.pdf", "a curve is drawn as .png and .svg; curve.pdf ends otherwise."),
        ("none/curve.png", "the folder of none/curve.png does not exist; make it first."),
    ],
)
def test_what_cannot_be_drawn_is_refused_first(here, call, name, sentence):
    """Nothing is read or written before."""
    before = sorted(here.iterdir())
    said = call("plan", "run.toml", "--curve", name)
    assert (said.code, said.err) == (2, f"hexveil: {sentence}\n")
    assert sorted(here.iterdir()) == before


def test_without_matplotlib_one_sentence_says_so(here, call, monkeypatch):
    """The extra is named."""
    monkeypatch.setattr("hexveil.experiments.chart.find_spec", lambda _: None)
    said = call("plan", "run.toml", "--curve", "curve.png")
    assert said.code == 2
    assert re.fullmatch(r"hexveil: a figure needs matplotlib: .*plots.*\n", said.err)
    assert not (here / "curve.svg").exists()
