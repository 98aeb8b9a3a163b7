"""Tests of `hexveil_research.papers.drawing`."""

import numpy as np
import pytest

from hexveil_research.papers import drawing
from hexveil_research.papers.study import Outcome, Panel, line
from pictures import cut_off

image = pytest.importorskip("matplotlib.image")

LONG = 'ArrayAveraging(grouping="wrap_around", cap="surrogate"), in a case that needs many words'
X = np.linspace(0.5, 2, 7)


def lines(many, size=7, **more):
    """Return lines of which the last is ours; every name but the first is short."""
    x = np.linspace(0.5, 2, size)
    names = [LONG, *(f"mechanism {k}" for k in range(1, many))]
    ys = [(k + 1) / x for k in range(many)]
    return tuple(
        line(
            name, x, y, low=0.9 * y, high=1.1 * y, whose="ours" if y is ys[-1] else "paper", **more
        )
        for name, y in zip(names, ys, strict=True)
    )


def outcome(*panels, title="Ten times the samples of every user, " * 3, **more):
    """Return an outcome with these lines in each panel."""
    made = [Panel(title, "Epsilon", "Error (km/h)", one, ends="95%", **more) for one in panels]
    return Outcome(tuple(made))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("panels", "shared", "many"),
    [
        (1, True, 9), (1, False, 1), (2, True, 1), (2, False, 9), (3, True, 9), (3, False, 1),
        (5, True, 1), (5, False, 9),
    ],
)  # fmt: skip
def test_nothing_is_cut_off(panels, shared, many):
    """Every text lies within the figure, whether the panels share a legend or not."""
    rows = [lines(many) if shared else lines(many)[: 1 + k] for k in range(panels)]
    figure = drawing.draw("IOT figure 3. " + "Long words " * 9, outcome(*rows, log_y=True))
    assert cut_off(figure) == []
    legends = [axes.get_legend() for axes in figure.axes if axes.get_visible()]
    one_for_all = len({tuple(each.name for each in row) for row in rows}) == 1
    assert len(figure.legends) == one_for_all
    assert [legend is None for legend in legends] == [one_for_all] * panels


@pytest.mark.slow
def test_a_private_figure_says_so():
    """The stamp stands in the image's text; without it the figure is another."""
    private = drawing.images("x", outcome(lines(2)), private=True)
    assert b"PRIVATE" in private["svg"]
    assert b"PRIVATE" not in drawing.images("x", outcome(lines(2)))["svg"]
