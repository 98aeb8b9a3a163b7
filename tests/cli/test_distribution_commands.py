"""Quantiles and shares through the command: planned, released once, verified, refused in time."""

import pytest

ASKED = "--set plan.statistics=mean,p50,share<10 --set plan.estimator=bins"


@pytest.mark.slow
def test_a_delta_is_taken_only_if_asked(here, call, okay):
    """The plan, the release, its account and `verify` name it."""
    few = "--set plan.statistics=p50,share<10 --set plan.estimator=bins --epsilon 2"
    asked = (few, "--set privacy.delta=1e-6")
    planned = " ".join(call("plan run.toml", asked).out.split())
    assert "(epsilon) at delta 0.000001" in planned
    made = okay("release run.toml", asked, "--set release.accept_noise=true")
    assert "at delta 0.000001" in made.out
    assert "mean square of mu" in " ".join(call("verify map").out.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((ASKED, "--grids"), "--grids compares grids by the error of means, not of quantiles"),
        ("--set plan.statistics=p50,median", "statistics must be some of"),
        ("--set plan.statistics=share<10 --set plan.weights=3", "must be one number per kind"),
        ("--set plan.statistics=mean --set plan.estimator=bins", "estimator (in [plan]) goes with"),
        (
            "--set plan.statistics=p50 --set plan.method=per-cell",
            "method (in [plan]) has no meaning with quantiles",
        ),
        (
            "--set plan.statistics=p50 --set release.estimates=raw,smoothed",
            "smoothed goes with means",
        ),
    ],
)
def test_what_does_not_go_together_is_named(here, refuse, options, sentence):
    """A wrong choice ends in one sentence, and nothing is spent."""
    command = "release" if "estimates" in options else "plan"
    done = refuse(command, "run.toml", options, "--set release.accept_noise=true")
    assert sentence in " ".join(done.err.split())
    assert not (here / "map").exists()


@pytest.mark.slow
def test_a_curve_shows_the_price_of_shares(here, okay):
    """The figure has a line for each way to measure a share; errors fall with the price."""
    said = okay("plan run.toml --set plan.statistics=share<10 --curve curve --compare")
    assert (here / "curve.png").stat().st_size > 10_000
    assert "averages of zeros and ones" in (here / "curve.svg").read_text()
    assert "(chosen)" in said.out
