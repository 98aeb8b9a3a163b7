"""Tests of `hexveil_research.papers.city_statistics`."""

import pyarrow as pa
import pytest

from hexveil_research.city import track_statistics
from hexveil_research.papers import city_statistics
from hexveil_research.papers.study import Setting

ROWS = [
    ("records per user", 0.5, 1.1, 9.0, True),
    ("records per user", 1.0, 3.0, 4.0, False),
    ("speed above 0", 0.5, 0.9, 0.4, True),
    ("share of speeds that are 0", None, 1.2, 2.4, True),
    *(
        (f"{city_statistics.LAGGED} after {name}", None, 1.0, 1.5, True)
        for name in track_statistics.LAGS
    ),
]


@pytest.fixture
def found():
    """Return a verdict as `likeness.verdict` gives it, with one number out of bounds."""
    names = ("statistic", "quantile", "surat_itms", "warsaw_buses", "holds")
    return pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True)))


def test_a_number_far_from_both_sets_fails(found):
    """Each statistic is a claim, and one quantile out of bounds turns it."""
    claims = city_statistics.claims(found, ("surat_itms", "warsaw_buses"))
    verdicts = {claim.says.split(":")[0]: claim.verdict for claim in claims}
    assert verdicts["records per user"] == "fails"
    assert verdicts["speed above 0"] == "holds"
    assert len(claims) == 3 + len(track_statistics.LAGS)
    assert "city / real 1.10 to 3.00; 1 of 2 hold, beside Surat or Warsaw" in claims[0].measured


def test_panels_show_ratios_between_their_limits(found):
    """A panel for each statistic with quantiles, one for the autocorrelation over the lags."""
    panels = city_statistics.panels(found, city_statistics.NAMES, ratios=True)
    assert [panel.title for panel in panels] == [
        "records per user",
        "speed above 0",
        city_statistics.LAGGED,
    ]
    first, last = panels[0], panels[-1]
    assert [line.name for line in first.lines] == [*city_statistics.NAMES.values(), "twice", "half"]
    assert first.lines[0].y.tolist() == [1.1, 3.0]
    assert first.lines[-1].y.tolist() == [0.5, 0.5]
    assert last.lines[0].x.tolist() == list(track_statistics.LAGS.values())
    assert all(panel.log_y for panel in panels)


@pytest.mark.slow
def test_without_records_nothing_is_claimed():
    """The figure then shows the city alone, in its own units."""
    outcome = city_statistics.STUDIES[0].make(Setting())
    assert [claim.verdict for claim in outcome.claims] == ["not tried"]
    labels = {panel.title: panel.y_label for panel in outcome.panels}
    assert labels["speed above 0"] == "Speed (km/h)"
    assert labels[city_statistics.LAGGED] == "Correlation"
    speed = next(panel for panel in outcome.panels if panel.title == "speed above 0").lines[0]
    assert 30 < speed.y[-1] <= 65


@pytest.mark.slow
def test_no_quantile_of_real_records_leaves(shared):
    """Of one real set, the outcome's numbers are ratios and counts only."""
    outcome = city_statistics.beside({"surat_itms": shared / "data" / "surat_itms.parquet"})
    assert {panel.y_label for panel in outcome.panels} == {"City / real"}
    assert {line.name for panel in outcome.panels for line in panel.lines} == {
        "beside Surat", "twice", "half",
    }  # fmt: skip
    assert all("city / real" in claim.measured for claim in outcome.claims)
