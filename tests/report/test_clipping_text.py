"""What private steps cut averages of users to, in words."""

import pytest

from hexveil.report import clipping_text

INTERVAL = {"step": "clipping_range", "epsilon": "0.1", "share": 0.1, "lower": -5.0, "upper": 2.5}
LAST = {"step": "cells", "epsilon": "0.700000001", "share": 0.7}
INSIDE = {
    "step": "residual_scale",
    "epsilon": "0.2",
    "share": 0.2,
    "quantile": "0.8",
    "half_width": 1.5,
}
CLASSES = {
    "step": "user_clusters", "epsilon": "0.3", "share": 0.3, "n_clusters": 7,
    "lower": 0.5, "upper": 1.5,
}  # fmt: skip
AVERAGES = {"step": "first_stage", "epsilon": "0.3", "share": 0.3}
NARROW = LAST | {"half_width": 1.25}
STEPS = {
    "none": [LAST],
    "global": [INTERVAL, LAST],
    "single_stage": [INTERVAL, INSIDE | {"strategy": "single_stage"}, LAST],
    "user_residuals": [INTERVAL, INSIDE | {"strategy": "user_residuals"}, CLASSES, NARROW],
    "cell_residuals": [INTERVAL, INSIDE | {"strategy": "cell_residuals"}, AVERAGES, NARROW],
}
WAY = {"none": None, "global": "single_stage"}


def amount(number):
    """Return a number as such texts show it."""
    return f"{number:g} m"


@pytest.mark.parametrize("kind", STEPS)
def test_the_way_is_told_from_the_steps(kind):
    """Without a range there is no strategy; with one range alone there is a single stage."""
    assert clipping_text.get_strategy(STEPS[kind]) == WAY.get(kind, kind)


@pytest.mark.parametrize("kind", STEPS)
def test_every_step_is_told_once_with_its_price(kind):
    """A sentence for each step, its price rounded up; the strategy taken, and why, where asked."""
    told = clipping_text.describe_steps(STEPS[kind], amount)
    assert len(told) == (0 if kind == "none" else len(STEPS[kind]))
    for step, text in zip(STEPS[kind] if told else [], told, strict=True):
        price = {"cells": "0.7001"}.get(step["step"], f"{float(step['epsilon']):.4f}")
        assert f"(epsilon {price}, {step['share']:.0%} of the total)." in text
    assert " ".join(told).count("Strategy selected: ") == (
        kind in ("single_stage", "user_residuals", "cell_residuals")
    )


def test_what_was_cut_is_said_with_the_widths_of_the_way():
    """Ends of the range, of users' own averages with a width, or a width around centres."""
    said = {
        kind: clipping_text.describe_clipping(STEPS[kind], amount)
        for kind in STEPS
        if kind != "none"
    }
    assert said["global"] == said["single_stage"]
    assert "clipped to -5 m to 2.5 m, one range" in said["single_stage"]
    assert "over all its cells to 0.5 m to 1.5 m, and its difference" in said["user_residuals"]
    assert "to 1.25 m either way" in said["user_residuals"]
    assert "to within 1.25 m of a first noisy average" in said["cell_residuals"]
    assert not [
        text
        for kind, text in said.items()
        if kind in ("user_residuals", "cell_residuals") and "-5" in text
    ]


def test_squares_are_said_where_there_are_any_and_they_are_shown():
    """Of a variance the range of second moments is said too; of an average beside it, not."""
    steps = [INTERVAL | {"radius": 9.0}, LAST | {"mean_share": 0.4}]
    assert clipping_text.describe_clipping(steps, amount).endswith(
        "from its middle clipped to 9 m, squared"
    )
    assert clipping_text.describe_clipping(
        steps, amount, squares=False
    ) == clipping_text.describe_clipping(STEPS["global"], amount)
    assert "squared distances" in clipping_text.describe_steps(steps, amount)[1]
    assert "squared" not in " ".join(clipping_text.describe_steps(STEPS["global"], amount))
