"""Comparison and roll-up of releases, from the folders to the folders."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from publishing.derived.chosen_cells import with_columns
from publishing.releases import release_of, released, restated, statements_of
from report.test_page import data_of

ALL = {"resolution": "all", "timeslot": "all"}


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """Return the folders of two releases of hexagons in two hours."""
    folder = tmp_path_factory.mktemp("mapped")
    plans = {"squares": "before", "per-cell": "after"}
    return [released(folder / name, plan, mapped=True) for plan, name in plans.items()]


@pytest.fixture(scope="module")
def ranged(tmp_path_factory):
    """Return a release under a private range."""
    return release_of(tmp_path_factory.mktemp("ranged") / "map", "interval", mapped=True)


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    """Return a release of routes."""
    return release_of(tmp_path_factory.mktemp("routes") / "map", "means")


def page_of(file):
    """Return the text of a page, and its data."""
    text = file.read_text("utf-8")
    return text, data_of(text)


def moved(release, change=0.0, rows=None, **sections):
    """Return a release with other numbers, rows or parts of its manifest, as another request."""
    own = statements_of(release)
    changes = {section: dict(own[section]) | parts for section, parts in sections.items()}
    moved = with_columns(release, mean_noisy=release["mean_noisy"] + change)
    moved = moved if rows is None else replace(moved, table=moved.table.take(rows))
    return restated(moved, request="0" * 64, **changes)


def test_a_change_is_the_difference_of_noisy_numbers(mapped):
    """Numbers, exact intervals and receipts of two folders; the verdict follows the p-values."""
    made = hv.compare_releases(*mapped, statistic="mean")
    before, after = (hv.load(folder) for folder in mapped)
    change = after["mean_noisy"] - before["mean_noisy"]
    bias = before["mean_bias"] + after["mean_bias"]
    assert made.table["change"].to_numpy() == pytest.approx(np.clip(change, -60, 60))
    low, high = (made.table[f"change_{end}"].to_numpy() for end in ("low", "high"))
    assert (low <= np.clip(change - bias, -60, 60)).all()
    assert (np.clip(change + bias, -60, 60) <= high).all()
    statement = made.statement
    assert statement["procedure"] == "Benjamini-Hochberg"
    assert "at least 95 percent" in statement["covers"]
    assert statement["before"]["request"] == before.manifest["request"]
    assert len(statement["after"]["receipt_sha256"]) == 64
    assert sum(made.verdicts.values()) == len(made) == len(before)
    assert "which vehicles reported" in statement["not_covered"]
    # In memory there is no receipt; all else is the same.
    again = hv.compare_releases(before, after, statistic="mean")
    assert again.table.equals(made.table)
    assert again.statement["before"]["receipt_sha256"] is None


def test_a_large_change_is_found_and_a_small_one_is_not(mapped):
    """A release moved by more than its noise is told everywhere, upwards and downwards."""
    pytest.importorskip("pandas")
    before = hv.load(mapped[0])
    noise = before["mean_scale"].max()
    assert hv.compare_releases(before, moved(before)).verdicts["cannot be told"] == len(before)
    up = hv.compare_releases(before, moved(before, 12 * noise))
    assert up.verdicts["higher"] == len(before)
    down = hv.compare_releases(before, moved(before, -12 * noise))
    assert down.verdicts["lower"] == len(before)
    assert up.to_pandas().shape == (len(before), len(up.table.column_names))


def test_slots_of_other_days_pair_by_the_clock(mapped):
    """The next day's release pairs hour by hour; cells of one release alone are counted."""
    before = hv.load(mapped[0])
    after = moved(before, rows=list(range(len(before) - 2)))
    day_later = [slot.replace("-15T", "-16T") for slot in after.table["slot"].to_pylist()]
    after = with_columns(after, slot=day_later)
    made = hv.compare_releases(before, after)
    assert made.statement["days_between"] == 1
    assert made.statement["cells"] == {
        "compared": len(before) - 2,
        "only_before": 2,
        "only_after": 0,
    }
    rows = made.table.to_pylist()
    assert all(row["slot_before"][11:] == row["slot_after"][11:] for row in rows)
    assert all(row["change"] == 0.0 for row in rows)


@pytest.mark.slow
def test_a_private_range_is_compared_by_its_intervals(ranged):
    """Estimates, square-and-add of their intervals, and the procedure for any dependence."""
    made = hv.compare_releases(ranged, moved(ranged))
    assert made.statement["procedure"] == "Benjamini-Yekutieli"
    assert made.statement["basis"] == "model"
    below, above = (
        ranged["mean_estimate"] - ranged["mean_low"],
        ranged["mean_high"] - ranged["mean_estimate"],
    )
    assert made.table["change_high"].to_numpy() == pytest.approx(
        np.minimum(np.hypot(below, above), 60)
    )
    spread = hv.compare_releases(ranged, moved(ranged), statistic="variance")
    assert set(spread.table["verdict"].to_pylist()) == {"cannot be told"}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"dataset": {"value_unit": "mph"}}, "dataset/value_unit: km/h and mph; compare releases"),
        ({"bounds": {"upper": "70"}}, "bounds/upper: 60 and 70"),
        ({"bounds": {"quantum": "0.1"}}, "bounds/quantum: 0.001 and 0.1"),
        ({"grid": {"resolution": 6}}, "grid/resolution: 7 and 6; roll both up to one grid"),
        ({"grid": {"timezone": "Europe/Warsaw"}}, "grid/timezone: Asia/Kolkata and Europe/Warsaw"),
    ],
)
def test_releases_that_differ_are_refused(mapped, sections, message):
    """Each refusal names what differs, both sides, and what to do."""
    before = hv.load(mapped[0])
    with pytest.raises(hv.InputError, match=message):
        hv.compare_releases(before, moved(before, **sections))


def test_other_refusals_are_sentences(mapped, routes, tmp_path):
    """The same release, other cells, missing statistics, changed folders, odd arguments."""
    before, after = (hv.load(folder) for folder in mapped)
    with pytest.raises(hv.InputError, match="both are the same release"):
        hv.compare_releases(before, mapped[0])
    with pytest.raises(hv.InputError, match="grid/kind: hexagons and labels"):
        hv.compare_releases(before, routes)
    with pytest.raises(hv.InputError, match="has no variance; it has mean"):
        hv.compare_releases(before, after, statistic="variance")
    with pytest.raises(hv.InputError, match="no cell in common"):
        hv.compare_releases(
            moved(before, rows=[0]), replace(before, table=before.table.slice(6, 1))
        )
    with pytest.raises(hv.InputError, match="between 0 and 1"):
        hv.compare_releases(before, after, false_discovery_rate=5)
    with pytest.raises(hv.InputError, match="a release or its folder is needed, got int"):
        hv.compare_releases(before, 7)
    (tmp_path / "map").mkdir()
    for file in mapped[0].iterdir():
        (tmp_path / "map" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "map" / "cells.csv").write_text("cell\n")
    with pytest.raises(hv.InputError, match=r"is not as it was written: cells.csv was changed"):
        hv.compare_releases(tmp_path / "map", mapped[1])


def test_the_folder_of_a_comparison(mapped, tmp_path):
    """Tables, page, statement and README.txt; equal input gives equal files."""
    before = hv.load(mapped[0])
    table = moved(before, 12 * before["mean_scale"].max(), rows=list(range(len(before) - 1)))
    made = hv.compare_releases(before, table)
    folder, twin = (made.write(tmp_path / name) for name in ("changes", "twin"))
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "README.txt", "cells.csv", "cells.geojson", "cells.parquet", "comparison.html",
        "comparison.json",
    }  # fmt: skip
    assert all((folder / name).read_bytes() == (twin / name).read_bytes() for name in names)
    said = (folder / "README.txt").read_text("utf-8")
    assert [one for one in made.table.column_names if f"\n- {one}: " not in said] == []
    statement = json.loads((folder / "comparison.json").read_text("utf-8"))
    assert statement["after"]["request"] == "0" * 64
    assert statement["verdicts"]["higher"] == len(made)
    assert pq.read_table(folder / "cells.parquet")["change"].equals(made.table["change"])
    same = hv.compare_releases(before, moved(before)).write(tmp_path / "same")
    # A legend has colours where a hexagon has one.
    plain = [f'id="colour-bar"{word}></div>' for word in ("", " hidden")]
    texts = [(one / "comparison.html").read_text() for one in (folder, same)]
    assert all(word in text for word, text in zip(plain, texts, strict=True))
    page, data = page_of(folder / "comparison.html")
    assert "style=" not in page.split("<script>")[0]
    assert 'href="cells.csv" download' in page
    assert "which vehicles reported" in page
    (shown,) = data["choices"]
    assert shown["value"]["signed"]
    assert shown["colour"]["low"] == -shown["colour"]["high"]
    assert data["columns"]["value"] == pytest.approx(made.table["change"].to_numpy(), abs=0.051)
    assert (np.array(data["columns"]["low"]) <= made.table["change_low"].to_numpy() + 1e-9).all()
    with pytest.raises(hv.InputError, match="exists, and is never written into"):
        made.write(folder)


@pytest.mark.slow
def test_hexagons_become_parents_and_hours_days(mapped):
    """Averages over parents and days are those of their cells' records, with exact bounds."""
    release = hv.load(mapped[0])
    made = hv.roll_up(release, resolution="all", timeslot="1d")
    rows = release.table.to_pylist()
    (only,) = made.table.to_pylist()
    weight = np.array([row["records"] for row in rows]) / only["records"]
    assert only["slot"] == "2023-11-15T00:00"
    assert only["slot_end"] == "2023-11-16T00:00"
    assert only["cells"] == len(rows)
    assert only["mean"] == pytest.approx(weight @ release["mean_noisy"])
    assert only["mean_bias"] == pytest.approx(weight @ release["mean_bias"])
    assert only["mean_high"] == pytest.approx(
        only["mean"] + only["mean_noise95"] + only["mean_bias"]
    )
    assert made.statement["source"]["request"] == release.manifest["request"]
    assert repr(made) == "RolledUpRelease('buses', n_cells=1)"
    assert len(hv.roll_up(release, timeslot="1d")) == 7
    assert len(hv.roll_up(release, resolution="all")) == len(set(release.table["slot"].to_pylist()))
    assert hv.roll_up(release, **ALL).table["cell"].to_pylist() == ["all"]


def test_roll_ups_are_compared(mapped):
    """Both are rolled up to one grid, then compared; only averages can be."""
    rolled = [hv.roll_up(folder, timeslot="1d") for folder in mapped]
    made = hv.compare_releases(*rolled)
    assert len(made) == 7
    assert made.statement["basis"] == "approximate"
    assert "of about 95 percent" in made.statement["covers"]
    with pytest.raises(hv.InputError, match="a roll-up has averages and no sd"):
        hv.compare_releases(*rolled, statistic="sd")


def test_labels_are_rolled_up(routes, tmp_path):
    """Of labels some columns are kept, or one cell; a page without a map is written."""
    made = hv.roll_up(routes, **ALL)
    assert made.table["cells"].to_pylist() == [len(routes)]
    page = made.write(tmp_path / "all") / "roll-up.html"
    text, data = page_of(page)
    assert data["map"] is None
    assert data["columns"]["label:cell"] == ["all"]
    assert 'id="chart"' in text
    assert hv.roll_up(routes, columns=["route"]).table["mean"].to_numpy() == pytest.approx(
        np.clip(routes["mean_noisy"], 0, 60)[np.argsort(routes.table["route"].to_pylist())]
    )


def test_a_range_leaves_room_for_clipping(ranged):
    """Under a private range noise averages out, and the predicted effect of clipping does not."""
    made = hv.roll_up(ranged, **ALL)
    assert made.statement["basis"] == "model"
    weight = ranged["records"] / ranged["records"].sum()
    noise = made.table["mean_noise95"][0].as_py()
    assert 0.0 < noise < weight @ (np.log(20) * ranged["mean_scale"])
    assert made.table["mean_bias"][0].as_py() >= weight @ (
        ranged["mean_error"] - ranged["mean_scale"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a coarser grid"),
        ({"resolution": 8}, 'resolution 0 to 7 or "all", got 8'),
        ({"resolution": True}, "got True"),
        ({"timeslot": "90min"}, "slots of 1h do not fill slots of 90min"),
        ({"timeslot": "7h"}, "divide the day evenly"),
        ({"columns": ["route"]}, "has hexagons and no label columns"),
    ],
)
def test_what_is_not_coarser_is_refused(mapped, options, message):
    """Each refusal says what a roll-up can be asked for."""
    with pytest.raises(hv.InputError, match=message):
        hv.roll_up(hv.load(mapped[0]), **options)


def test_labels_refuse_what_they_do_not_have(routes, tmp_path):
    """Other columns, hexagons, and statistics that no average can be made of."""
    with pytest.raises(hv.InputError, match="no label column 'ward'; it has route"):
        hv.roll_up(routes, columns=["ward"])
    with pytest.raises(hv.InputError, match="has labels and no hexagons"):
        hv.roll_up(routes, resolution=5)
    with pytest.raises(hv.InputError, match="list the label columns to keep"):
        hv.roll_up(routes, columns="route")
    spread = release_of(tmp_path / "spread", "root")
    with pytest.raises(hv.InputError, match="deviation of coarser cells does not follow"):
        hv.roll_up(spread, **ALL)
