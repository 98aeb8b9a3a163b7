"""Quantiles and shares through the command: planned, released once, verified, refused in time."""

import json

import pyarrow.parquet as pq
import pytest

ASKED = ("--set", "plan.statistics=mean,p50,share<10", "--set", "plan.estimator=bins")
DRAWN = ("run.toml", *ASKED, "--set", "plan.weights=distribution=2,moments=1", "--epsilon", "2")


@pytest.mark.slow
def test_from_records_to_a_verified_folder(here, call):
    """The plan states one price for all; the release books it once, and the folder verifies."""
    planned = call("plan", *DRAWN, "--compare", "--save", "reviewed", "--json")
    said = json.loads(planned.out)
    assert {one["estimator"]: one["is_chosen"] for one in said["estimators"]} == {
        "ranks": False, "bins": True,
    }  # fmt: skip
    assert said["files"] == ["reviewed"]
    assert said["statistics"] == ["mean", "p50", "share<10"]
    assert said["weights"] == {"distribution": 2.0, "moments": 1.0}
    assert 1.9 < said["epsilon"] <= 2.0
    dry = call("release", *DRAWN, "--dry-run")
    assert "would book 2 for the most exposed unit" in " ".join(dry.out.split())
    done = call("release", "run.toml", *ASKED[:2], "--from-plan", "reviewed")
    assert done.code == 0, done.err
    assert "p50_quality" in pq.read_table("map/cells.parquet").column_names
    checked = call("verify", "map")
    assert checked.code == 0, checked.err
    assert "means and variances" in checked.out
    again = json.loads(call("release", *DRAWN, "--out", "again", "--json").out)
    assert again["replayed"]
    assert pq.read_table("again/cells.parquet").equals(pq.read_table("map/cells.parquet"))
    assert "median and share below 10 of speed" in call("dossier", "map").out


@pytest.mark.slow
def test_a_delta_is_taken_only_if_asked(here, call):
    """A plan says what it would gain; the release, its account and `verify` name it."""
    few = (
        "--set",
        "plan.statistics=p50,share<10",
        "--set",
        "plan.estimator=bins",
        "--epsilon",
        "2",
    )
    assert "With a delta" in call("plan", "run.toml", *few).out
    asked = (*few, "--set", "privacy.delta=1e-6")
    planned = " ".join(call("plan", "run.toml", *asked).out.split())
    assert "(epsilon) at delta 0.000001" in planned
    assert "With a delta" not in planned
    made = call("release", "run.toml", *asked, "--set", "release.accept_noise=true")
    assert made.code == 0, made.err
    assert "at delta 0.000001" in made.out
    assert "mean square of mu" in " ".join(call("verify", "map").out.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((*ASKED, "--grids"), "--grids compares grids by the error of means, not of quantiles"),
        (("--set", "plan.statistics=p50,median"), "statistics must be some of"),
        (
            ("--set", "plan.statistics=share<10", "--set", "plan.weights=3"),
            "must be one number per kind",
        ),
        (
            ("--set", "plan.statistics=mean", "--set", "plan.estimator=bins"),
            "estimator (in [plan]) goes with quantiles",
        ),
        (
            ("--set", "plan.statistics=p50", "--set", "plan.method=per-cell"),
            "method (in [plan]) has no meaning with quantiles",
        ),
        (
            ("--set", "plan.statistics=p50", "--set", "release.estimates=raw,smoothed"),
            "smoothed goes with means",
        ),
    ],
)
def test_what_does_not_go_together_is_named(here, call, options, sentence):
    """A wrong choice ends in one sentence, and nothing is spent."""
    command = "release" if any("estimates" in one for one in options) else "plan"
    done = call(command, "run.toml", *options, "--set", "release.accept_noise=true")
    assert done.code == 2
    assert sentence in " ".join(done.err.split())
    assert not (here / "map").exists()


@pytest.mark.slow
def test_a_curve_shows_the_price_of_shares(here, call):
    """The figure has a line for each way to measure a share; errors fall with the price."""
    said = call(
        "plan", "run.toml", "--set", "plan.statistics=share<10", "--curve", "curve", "--compare"
    )
    assert said.code == 0, said.err
    assert (here / "curve.png").stat().st_size > 10_000
    assert "averages of zeros and ones" in (here / "curve.svg").read_text()
    assert "(chosen)" in said.out
