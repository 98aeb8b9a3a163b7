"""Tests of `hexveil_research.papers.drawing`."""

import io
from pathlib import Path

import numpy as np
import pytest

from hexveil.base.errors import InputError
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


def test_ours_are_heavier_and_named():
    """Our line is thicker, its markers are filled and its name says whose it is."""
    (axes,) = drawing.draw("", outcome(lines(2))).axes
    theirs, ours = [each for each in axes.get_lines() if not each.get_label().startswith("_")]
    assert ours.get_linewidth() > 1.5 * theirs.get_linewidth()
    assert (theirs.get_markerfacecolor(), ours.get_markerfacecolor()) == ("white", ours.get_color())
    assert ours.get_label() == "hexveil: mechanism 1"


def test_a_name_looks_the_same_in_every_panel():
    """Colour, marker and dashes belong to a name, not to a place in a panel."""
    both = lines(3)
    first, second = drawing.draw("", outcome(both, both[::-1])).axes
    looks = [
        {
            each.get_label(): (each.get_color(), each.get_marker(), str(each._dash_pattern))
            for each in axes.get_lines()
        }
        for axes in (first, second)
    ]
    assert {name for name in looks[0] if not name.startswith("_")} <= looks[1].keys()
    assert all(looks[0][name] == looks[1][name] for name in looks[0] if not name.startswith("_"))


def test_bars_reach_from_low_to_high():
    """The ends of a bar are those of the line."""
    (axes,) = drawing.draw("", outcome(lines(1))).axes
    (bars,) = [each for each in axes.collections if len(each.get_segments()) == X.size]
    ends = np.array(bars.get_segments())[:, :, 1]
    assert ends == pytest.approx(np.stack([0.9 / X, 1.1 / X], axis=1))


def test_many_points_have_a_band():
    """A line of a hundred points has no hundred bars."""
    (axes,) = drawing.draw("", outcome(lines(1, size=100))).axes
    (band,) = axes.collections
    (path,) = band.get_paths()
    assert path.vertices[:, 1].max() == pytest.approx(1.1 / 0.5)


def test_steps_hold_until_the_next_point():
    """A staircase keeps its height after each point."""
    stair = line("cap", [0.1, 1, 2], [1, 4, 9], look="steps")
    (axes,) = drawing.draw("", outcome((stair,), log_x=True)).axes
    assert axes.get_lines()[0].get_drawstyle() == "steps-post"
    assert axes.get_xscale() == "log"


def test_a_linear_axis_of_errors_begins_at_zero():
    """Heights can be compared; a logarithmic axis has no zero."""
    (linear,) = drawing.draw("", outcome(lines(2))).axes
    (steep,) = drawing.draw("", outcome(lines(2), log_y=True)).axes
    assert linear.get_ylim()[0] == 0
    assert steep.get_ylim()[0] > 0


def test_it_is_readable_in_grey():
    """Nine lines differ in marker and dashes, so that colour is not needed."""
    (axes,) = drawing.draw("", outcome(lines(9))).axes
    named = [each for each in axes.get_lines() if not each.get_label().startswith("_")]
    looks = {(each.get_marker(), str(each._dash_pattern)) for each in named}
    assert len(looks) == len(named) == 9


@pytest.mark.slow
def test_images_are_reproducible():
    """The same study gives the same bytes, in both kinds."""
    made = drawing.images("x", outcome(lines(2)))
    assert made == drawing.images("x", outcome(lines(2)))
    assert set(made) == {"png", "svg"}
    assert image.imread(io.BytesIO(made["png"])).std() > 0.01


def test_without_panels_nothing_is_drawn(monkeypatch):
    """Claims alone need no library that draws; a figure names the one that is missing."""
    monkeypatch.setattr(figure_style, "find_spec", lambda _: None)
    assert drawing.images("x", Outcome()) == {}
    with pytest.raises(InputError, match="hexveil\\[plots\\]"):
        drawing.images("x", outcome(lines(1)))


def test_ours_have_a_colour_of_their_own():
    """However many lines the papers have, none has the colour of ours."""
    (axes,) = drawing.draw("", outcome(lines(11))).axes
    drawn = [each for each in axes.get_lines() if not each.get_label().startswith("_")]
    *theirs, ours = (each.get_color() for each in drawn)
    assert ours not in theirs


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


def test_an_algorithm_has_one_colour_in_all_figures():
    """Whatever stands beside it; its forms share the colour, and names of one algorithm do."""
    (rw, choices), (iot,) = drawn_looks(RW, CHOICES), drawn_looks(("OPTIMIZEDQUANTILE", "LEVY"))
    assert rw["LEVY"] == iot["LEVY"]
    assert rw["ε-DEPENDENTQUANTILE"] == iot["OPTIMIZEDQUANTILE"]
    assert {choices[n][0] for n in CHOICES[:2]} == {rw["LEVY"][0]}
    (wc,), (caps,) = drawn_looks(("AKMV", "OPT-worst-case")), drawn_looks(("optimal clipping",))
    # Dashes are drawn in widths of the line, and ours are heavier.
    assert wc["OPT-worst-case"][:2] == caps["optimal clipping"][:2]
    comp = [drawn_looks((name, "cells counted, G₁ε"))[0] for name in ("joint plan, same loss", "x")]
    assert comp[0]["cells counted, G₁ε"] == comp[1]["cells counted, G₁ε"]
