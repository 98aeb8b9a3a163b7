"""What private steps cut averages of users to, in words."""

import pytest

from hexveil.report import accuracy_text

INTERVAL = {"step": "clipping_range", "epsilon": "0.1", "share": 0.1, "lower": -5.0, "upper": 2.5}
LAST = {"step": "cells", "epsilon": "0.700000001", "share": 0.7}
STEPS = {
    "none": [LAST],
    "global": [INTERVAL, LAST],
}
WAY = {"none": None, "global": "single_stage"}


def amount(number):
    """Return a number as such texts show it."""
    return f"{number:g} m"


@pytest.mark.parametrize("kind", STEPS)
def test_the_way_is_told_from_the_steps(kind):
    """Without a range there is no word; with one range there is a single stage."""
    assert accuracy_text.get_strategy(STEPS[kind]) == WAY.get(kind, kind)


@pytest.mark.parametrize("kind", STEPS)
def test_every_step_is_told_once_with_its_price(kind):
    """A sentence for each step, its price rounded up."""
    told = accuracy_text.describe_steps(STEPS[kind], amount)
    assert len(told) == (0 if kind == "none" else len(STEPS[kind]))
    for step, text in zip(STEPS[kind] if told else [], told, strict=True):
        price = {"cells": "0.7001"}.get(step["step"], f"{float(step['epsilon']):.4f}")
        assert f"(epsilon {price}, {step['share']:.0%} of the total)." in text


def test_what_was_cut_is_said():
    """Ends of the range."""
    said = accuracy_text.describe_clipping(STEPS["global"], amount)
    assert "clipped to -5 m to 2.5 m, one range" in said


def test_squares_are_said_where_there_are_any_and_they_are_shown():
    """Of a variance the range of second moments is said too; of an average beside it, not."""
    steps = [INTERVAL | {"radius": 9.0}, LAST | {"mean_share": 0.4}]
    assert accuracy_text.describe_clipping(steps, amount).endswith(
        "from its middle clipped to 9 m, squared"
    )
    assert accuracy_text.describe_clipping(
        steps, amount, squares=False
    ) == accuracy_text.describe_clipping(STEPS["global"], amount)
    assert "squared distances" in accuracy_text.describe_steps(steps, amount)[1]
    assert "squared" not in " ".join(accuracy_text.describe_steps(STEPS["global"], amount))
