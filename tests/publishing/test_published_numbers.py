"""A release in memory: a sequence of rows, columns by name, and tables for other libraries."""

import json

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from publishing.releases import release_of


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """Return a release of hexagons in two hours, smoothed, with three statistics."""
    folder = tmp_path_factory.mktemp("mapped")
    return release_of(folder / "map", "squares", mapped=True, smoothed=True)


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    """Return a release of labels, some of which a spreadsheet would take for formulas."""
    return release_of(tmp_path_factory.mktemp("routes") / "map", "means")


def test_a_release_is_a_sequence_of_rows(mapped):
    """It is as long as it has cells, and each row is a dict of its columns."""
    rows = list(mapped)
    assert len(mapped) == len(rows) == mapped.table.num_rows
    assert rows == mapped.table.to_pylist()
    assert mapped.columns == mapped.table.column_names


def test_columns_have_names(mapped):
    """A column is an array that cannot be written to; a statistic alone means its raw numbers."""
    raw = mapped["mean"]
    assert raw.tolist() == mapped["mean_raw"].tolist() == mapped.table["mean_raw"].to_pylist()
    assert mapped["sd"].tolist() == mapped.table["sd_raw"].to_pylist()
    assert mapped["starts_at_utc"].dtype.kind == "M"
    with pytest.raises(ValueError, match="read-only"):
        raw[0] = 0.0
    assert "mean" in mapped
    assert "mean_raw" in mapped
    assert "median" not in mapped
    assert 7 not in mapped


def test_several_columns_and_rows_are_arrow_tables(mapped):
    """A list of names selects columns, an array of truth values rows."""
    assert mapped[["cell", "mean"]].column_names == ["cell", "mean_raw"]
    usable = mapped["mean_quality"] != "noise"
    assert mapped[usable].num_rows == np.count_nonzero(usable)
    assert mapped[~usable].equals(mapped.table.filter(pa.array(~usable)))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("mean_row", r"no column 'mean_row'; did you mean 'mean_raw'\?"),
        ("q", r"no column 'q'; it has cell, name, date, slot, "),
        (0, "named by text, got int; for rows use release.table"),
        (["cell", 0], "named by text, got int"),
        (np.array([True]), "named by text, got ndarray"),
        (slice(3), "named by text, got slice"),
    ],
)
def test_other_keys_are_refused(mapped, key, message):
    """What is neither a column, nor several, nor a choice of all rows ends in a sentence."""
    with pytest.raises(hv.InputError, match=message):
        mapped[key]


def test_a_label_column_goes_before_a_statistic(book):
    """Where a label has the name of a statistic, the name means the label."""
    rows = {"bus": [f"b{i}" for i in range(40)], "sd": ["x", "y"] * 20, "v": [3.0] * 40}
    data = hv.read(
        pa.table(rows), user="bus", value="v", bounds=(0, 10), cells=hv.Labels("sd"),
        accept_single_records=True,
    )  # fmt: skip
    plan = hv.plan(data, epsilon=5, advise=False)
    released = hv.release(data, plan, ledger=book, accept_noise=True)
    assert released["sd"].tolist() == ["x", "y"]


def test_libraries_take_a_release_as_it_is(mapped):
    """Arrow, pandas and polars make the same table of the object itself."""
    assert pa.table(mapped).equals(mapped.table)
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert pl.DataFrame(mapped).to_dicts() == list(mapped)
    assert pd.DataFrame(mapped)["mean_raw"].tolist() == mapped["mean"].tolist()
    assert mapped.head(2)["cell"].tolist() == mapped["cell"][:2].tolist()


def test_cells_are_geojson(mapped, routes, tmp_path):
    """The interface of places is the file that a folder has; labels do not have it."""
    file = mapped.write(tmp_path / "map") / "cells.geojson"
    stated, written = json.loads(json.dumps(mapped.__geo_interface__)), json.loads(file.read_text())
    for one, other in zip(stated["features"], written["features"], strict=True):
        # The file has the digits that its intervals carry.
        shown, kept = (feature.pop("properties") for feature in (one, other))
        assert shown.keys() == kept.keys()
        assert all(kept[key] == text for key, text in shown.items() if isinstance(text, str))
        assert one == other
    assert not hasattr(routes, "__geo_interface__")
    with pytest.raises(AttributeError, match="cells of labels have no outlines"):
        _ = routes.__geo_interface__
