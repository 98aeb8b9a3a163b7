"""Tests of the chart of errors in `hexveil.report.figure_style`."""

import io
from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest

from hexveil.base.errors import InputError
from hexveil.cli.output import evaluation_chart
from hexveil.report import figure_style
from hexveil.simulation.own_cells import STAMP, stamped
from pictures import cut_off

mpl, image = pytest.importorskip("matplotlib"), pytest.importorskip("matplotlib.image")

NAMES = [
    'ArrayAveraging(grouping="wrap_around", cap="surrogate")',
    "FixedQuantile(0.1, 0.9)",
    *(f"Levy(gamma={n / 20})" for n in range(1, 13)),
]


def table(epsilons=(0.25, 1.0, 2.0), mechanisms=3, least=1.0):
    """Return a table as `evaluate` makes it."""
    rows = [(n, e) for n in NAMES[:mechanisms] for e in epsilons]
    mae = [least * (1 + i % 3) / e for i, (_, e) in enumerate(rows)]
    return pa.table(
        {
            "mechanism": [name for name, _ in rows],
            "epsilon": [epsilon for _, epsilon in rows],
            "mae": mae,
            "standard_error": [0.1 * error for error in mae],
            "trials": [100] * len(rows),
        }
    )


SHAPES = [
    table(),
    table(mechanisms=14),
    table(epsilons=(1.0,), mechanisms=14),
    table(epsilons=np.geomspace(0.1, 4, 16).round(3).tolist()),
    table(mechanisms=1, epsilons=(1.0,)),
    table(least=0.0),
    table(least=1e-3),
]


@pytest.mark.parametrize(("rows", "private"), list(zip(SHAPES, cycle([True, False]))))
def test_nothing_is_cut_off(rows, private):
    """Every text of the figure lies within it, however many mechanisms and epsilons there are."""
    figure = evaluation_chart.error_chart(
        stamped(rows) if private else rows, title="Cell x, " + "long words " * 12
    )
    assert cut_off(figure) == []


def test_lines_differ_without_colour():
    """No two of fourteen mechanisms have the same marker and dashes."""
    looks = {
        (line[0].get_marker(), str(line[0]._dash_pattern))
        for line in evaluation_chart.error_chart(table(mechanisms=14), title="").axes[0].containers
    }
    assert len(looks) == 14


def test_bars_are_95_percent_of_the_simulation():
    """A bar reaches 1.96 standard errors to either side."""
    rows = table(mechanisms=1)
    (container,) = evaluation_chart.error_chart(rows, title="").axes[0].containers
    segments = container[2][0].get_segments()
    heights = [top[1] - bottom[1] for bottom, top in segments]
    assert heights == pytest.approx(2 * 1.96 * rows["standard_error"].to_numpy())


@pytest.mark.parametrize(("least", "scale"), [(1.0, "log"), (0.0, "linear")])
def test_axes_are_logarithmic_where_they_can_be(least, scale):
    """An error of zero has no logarithm."""
    axes = evaluation_chart.error_chart(table((0.25, 1.0, 8.0), least=least), title="").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", scale)


def red(png):
    """Return how many pixels are of the stamp's red."""
    pixels = image.imread(io.BytesIO(png))[..., :3] * 255
    return int((np.abs(pixels - [192, 0, 0]).max(axis=-1) < 3).sum())


@pytest.mark.slow
def test_a_private_image_says_so_in_red():
    """The stamp stands in both images of a private table, and in none of another."""
    plain = evaluation_chart.chart_images(table(), title="Cell x")
    private = evaluation_chart.chart_images(stamped(table()), title="Cell x")
    assert red(plain["png"]) == 0
    assert red(private["png"]) > 2000
    assert STAMP.encode() in private["svg"]
    assert b"PRIVATE" not in plain["svg"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "title", ["route $5$ and $", "\u0935\u093e\u0930\u094d\u0921 7", "a\n\tb", "_{x"]
)
def test_names_are_text(title):
    """A cell's name is drawn as it is: no formula, no warning, no control character."""
    assert evaluation_chart.chart_images(table(), title=title)["png"].startswith(b"\x89PNG")


@pytest.mark.slow
def test_own_settings_do_not_change_the_figure():
    """A reader's own style, which might need programs that are missing, is left aside."""
    usual = evaluation_chart.chart_images(table(), title="x")
    with mpl.rc_context({"font.size": 30, "text.usetex": True, "axes.facecolor": "black"}):
        assert evaluation_chart.chart_images(table(), title="x") == usual
        assert mpl.rcParams["font.size"] == 30


@pytest.mark.slow
def test_images_are_reproducible():
    """The same table gives the same bytes: no date, no random name."""
    assert evaluation_chart.chart_images(table(), title="x") == evaluation_chart.chart_images(
        table(), title="x"
    )


def test_a_missing_library_is_named(monkeypatch):
    """Without matplotlib the line that installs it is said."""
    monkeypatch.setattr(figure_style, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'pip install "hexveil\[plots\]"'):
        evaluation_chart.chart_images(table(), title="")
