"""Tests of `hexveil_research.papers.drawing`."""

from pathlib import Path

import numpy as np
import pytest

from hexveil.report import figure_style
from hexveil_research.papers import drawing
from hexveil_research.papers.study import Outcome, Panel, line
from hexveil_research.pictures.gallery import lightness
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


def test_lines_show_on_dark_pages():
    """Turned round as the site does it on dark ground, each colour keeps a contrast of 3 to 1."""
    css = (Path(__file__).resolve().parents[3] / "website/theme/assets/site.css").read_text("utf-8")
    assert "filter: invert(1) hue-rotate(180deg);\n    mix-blend-mode: screen;" in css
    # Of Filter Effects Level 1, for half a turn.
    turn = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])
    for colour in figure_style.COLOURS:
        parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])
        seen = np.clip(turn @ (255 - parts), 0, 255).round().astype(int)
        bright = lightness("#" + "".join(f"{part:02x}" for part in seen))
        # Ground of the dark scheme, as it is drawn.
        assert (bright + 0.05) / (lightness("#0b0c0d") + 0.05) >= 3, colour


def drawn_looks(*panels):
    """Return colour and dashes of each line by panel, of lines of these names."""
    made = []
    for names in panels:
        ours = ("Foresight", "Auto", "joint plan, same loss", "optimal clipping")
        made.append(tuple(line(n, X, 1 / X, whose="ours" if n in ours else "paper") for n in names))
    looks = []
    for axes in drawing.draw("", outcome(*made)).axes:
        lines_ = [each for each in axes.get_lines() if not each.get_label().startswith("_")]
        named = [each.get_label().removeprefix("hexveil: ").replace("\n", " ") for each in lines_]
        styles = [(each.get_color(), each.get_marker(), str(each._dash_pattern)) for each in lines_]
        looks.append(dict(zip(named, styles, strict=True)))
    return looks


RW = (
    "BASELINE", "ARRAY-AVERAGING", "LEVY", "FIXEDQUANTILE", "ε-DEPENDENTQUANTILE",
    "OPT-ARRAY-AVERAGING, eq. (4)", "OPT-ARRAY-AVERAGING, Lemma VI.2", "Foresight", "Auto",
)  # fmt: skip
CHOICES = ("LEVY, printed", "LEVY, permute-and-flip", "FIXEDQUANTILE, printed")


def test_no_two_lines_of_a_panel_have_the_same_dashes_or_marker():
    """Nine algorithms in a panel of RW, and the forms of three of them in the next."""
    for looks in drawn_looks(RW, CHOICES):
        for part in (1, 2):
            assert len({look[part] for look in looks.values()}) == len(looks)
