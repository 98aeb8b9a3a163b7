"""The content of a picture: the cells of one slot, on one scale and one projection."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.report.manifest_view import ManifestView
from hexveil.report.notebook.cell_picture import (
    MAX_BARS,
    picture_of,
    select_slot,
)
from hexveil.report.payload import colour_ends

RAW = "mean_raw"


def view_of(release):
    return ManifestView.from_manifest(release.manifest)


def test_slots_share_scale_and_place(city):
    """The same hexagon lies in the same place in each slot, and equal colours are equal numbers."""
    slots = sorted(set(city.table["slot"].to_pylist()))
    pictures = [picture_of(city.table, view_of(city), RAW, slot) for slot in slots]
    assert {picture.scale for picture in pictures} == {
        colour_ends(city.table["mean_raw"].to_numpy(), city.table["mean_quality"].to_pylist())
    }
    first, second = ({n: o.tolist() for n, o in zip(p.names, p.outlines, strict=True)}
                     for p in pictures[:2])  # fmt: skip
    shared = first.keys() & second.keys()
    assert len(shared) > 50
    assert all(first[name] == second[name] for name in shared)
    every = {name for picture in pictures for name in picture.names}
    assert {len(p.outlines) + len(p.others) for p in pictures} == {len(every)}


def test_without_a_name_the_slot_of_most_records_is_drawn(city):
    """The public counts decide, no released number does."""
    totals = {}
    for row in city.table.to_pylist():
        totals[row["slot"]] = totals.get(row["slot"], 0) + row["records"]
    records = city.table["records"].to_numpy()
    assert select_slot(city.table, None, records) == max(totals, key=totals.get)
    bare = city.table.drop_columns(["slot", "slot_end"])
    assert select_slot(bare, None, records) is None


def test_an_unknown_slot_is_refused(city):
    """A name that is nearly right is proposed; else the slots are listed, and not without end."""
    with pytest.raises(
        hv.InputError, match=r"no slot '2024-02-19T7:00'; did you mean '2024-02-19T07"
    ):
        picture_of(city.table, view_of(city), RAW, "2024-02-19T7:00")
    with pytest.raises(hv.InputError, match="no slot 'noon'; it has 2024-02-19T07:00, 2024"):
        picture_of(city.table, view_of(city), RAW, "noon")
    many = pa.table({"slot": [f"s{i:02d}" for i in range(60)], "records": [1] * 60})
    with pytest.raises(hv.InputError, match="it has 60 others"):
        select_slot(many, "?", np.ones(60))
    with pytest.raises(hv.InputError, match="has no timeslots; leave slot out"):
        select_slot(many.drop_columns(["slot"]), "s01", np.ones(60))


def test_smoothed_numbers_have_the_interval_of_the_model(city):
    """The ends in the table belong to smoothed numbers; raw ones then have those of the bound."""
    moved = np.clip(city.table["mean_raw"].to_numpy() + 1, 0, 65)
    table = city.table.append_column("mean_smoothed", pa.array(moved))
    for name, value in (("mean_low", moved - 0.5), ("mean_high", moved + 0.5)):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(np.clip(value, 0, 65)))
    smoothed = picture_of(table, view_of(city), "mean_smoothed")
    assert (smoothed.high - smoothed.low).max() <= 1 + 1e-9
    raw = picture_of(table, view_of(city), RAW)
    assert ((raw.low <= raw.value) & (raw.value <= raw.high)).all()
    assert (raw.high - raw.low).min() > 1


def test_counts_have_neither_interval_nor_grade(city):
    """Public counts are exact: nothing is hatched, and their scale is their own."""
    picture = picture_of(city.table, view_of(city), "records")
    assert not picture.has_intervals
    assert set(picture.quality) == {"good"}
    assert picture.label == "records"
    assert picture.title.startswith("Records, ")
    assert picture.scale[1] >= max(city.table["records"].to_pylist())


def test_text_is_not_drawn(city):
    """A column without numbers is refused by name."""
    with pytest.raises(hv.InputError, match="column 'mean_quality' has none"):
        picture_of(city.table, view_of(city), "mean_quality")


def test_labels_begin_with_the_largest_number(city):
    """Cells of labels have no outlines, and those of most records are shown if there are many."""
    table = city.table.drop_columns(["hexagon", "slot", "slot_end"])
    view = replace(view_of(city), label_columns=("cell",))
    picture = picture_of(table, view, RAW)
    assert picture.outlines is None
    assert len(picture.names) == MAX_BARS
    many = f"{MAX_BARS} of {len(table)} cells, those with most records"
    assert picture.title == f"Average speed ({many})"
    assert picture.value.tolist() == sorted(picture.value.tolist(), reverse=True)
    most = sorted(table["records"].to_pylist())[-MAX_BARS:]
    shown = {row["cell"]: row["records"] for row in table.to_pylist()}
    assert sorted(shown[name] for name in picture.names) == most
