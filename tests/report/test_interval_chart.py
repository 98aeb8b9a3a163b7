"""The dots and intervals that stand in the map's place for labels."""

from hexveil.report.interval_chart import interval_chart
from hexveil.report.manifest_view import ManifestView


def test_bars_are_sorted_and_within_the_axis(wards):
    """The largest value comes first; each dot lies in its bar, each bar on the axis."""
    chart = interval_chart(wards.table, ManifestView.from_manifest(wards.manifest))
    dots = [bar.dot for bar in chart.bars]
    assert dots == sorted(dots, reverse=True)
    for bar in chart.bars:
        assert 0 <= bar.start <= bar.dot <= bar.start + bar.width + 0.01 <= 100.03
    assert chart.bars[0].name.endswith(" · 7")


def test_hexagons_have_no_chart(city):
    """A release of hexagons has a map instead."""
    assert interval_chart(city.table, ManifestView.from_manifest(city.manifest)) is None


def test_equal_values_do_not_divide_by_zero(wards):
    """A release in which everything is one number still draws."""
    table = wards.table.slice(0, 1)
    for column in ("mean_low", "mean_high"):
        index = table.column_names.index(column)
        table = table.set_column(index, column, table["mean_raw"])
    chart = interval_chart(table, ManifestView.from_manifest(wards.manifest))
    assert (chart.bars[0].dot, chart.bars[0].width) == (0.0, 0.0)
