"""Folders of releases with private presence: what they hold, and what verification finds."""

import copy
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.mechanisms.presence import presence_design
from hexveil.publishing import folder as folders
from hexveil.publishing.presence.presence_table import grade_counts, grade_means
from hexveil.publishing.presence.request_identity import identify, mechanism_constants
from hexveil.publishing.verification.presence_checks import (
    check_presence_numbers,
    check_presence_table,
)
from hexveil.publishing.verification.verify import find_problems

BOX = (20.5, 51.9, 21.5, 52.5)


def records(n=6000, seed=3):
    """Return records of 2,000 cars around Warsaw."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "car": [f"car{i % 2000}" for i in range(n)],
            "speed": 30 + 5 * rng.normal(size=n),
            "lat": 52.2 + 0.04 * rng.normal(size=n),
            "lon": 21.0 + 0.04 * rng.normal(size=n),
        }
    )


OPTIONS = {
    "user": "car",
    "value": "speed",
    "bounds": (0, 100),
    "quantum": "0.1",
    "value_unit": "km/h",
    "lat": "lat",
    "lon": "lon",
    "protect": "presence",
    "cells": hv.Cells(6, None, area=BOX),
}
SHAPES = ("mean", "p50", "p85", "share<25", "share>=40", "histogram")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a release of a map, one of numbers of units, and one of distributions."""
    ledger = hv.Ledger(tmp_path_factory.mktemp("book") / "l.sqlite", dataset="cars", budget=9)
    # Records that are counted by bin serve every statistic.
    dataset = hv.read(records(), **OPTIONS, statistics=SHAPES)
    plans = [
        hv.plan(dataset, epsilon=2, fleet=hv.FleetDeclaration(2000, 3, 2), statistics=statistics)
        for statistics in ("mean", "users", SHAPES)
    ]
    return [hv.release(dataset, plan, ledger=ledger, accept_noise=True) for plan in plans]


def problems(tmp_path, table, manifest):
    """Return what verification says of a folder whose receipt fits its changed content."""
    return find_problems(folders.write(table, manifest, tmp_path / "map"))


def changed(table, name, change):
    """Return a table with one column changed by a function of its values."""
    index = table.column_names.index(name)
    values = change(table[name].to_pylist(), table["is_open"].to_pylist())
    return table.set_column(index, table.schema.field(index), pa.array(values, table[name].type))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_unchanged_folder_is_verified(made, number, tmp_path):
    """Each kind of map passes, and loads as it was."""
    folder = made[number].write(tmp_path / "map")
    assert find_problems(folder) == ()
    loaded = hv.load(folder)
    assert loaded.table.equals(made[number].table)
    assert loaded.epsilon == made[number].epsilon


def first_open(value):
    """Return a change of the first open cell."""

    def change(values, is_open):
        values[is_open.index(True)] = value(values[is_open.index(True)])
        return values

    return change


SHAPE_TABLES = {
    "a weight": ("weight", first_open(lambda x: x + 1), "weight_low"),
    "a median": ("p50", first_open(lambda _: 100.0), "above one of a higher level"),
    "an end": ("p85_low", first_open(lambda _: 101.0), "p85_low, p85"),
    "a share": ("share_at_least_40", first_open(lambda _: 1.5), "fall with their thresholds"),
    "a bin": ("histogram_05", first_open(lambda x: x + 0.1), "do not add up to 1"),
    "a grade": ("quality", first_open(lambda x: "good" if x != "good" else "noise"), "quality"),
    "a missing number": ("p50", first_open(lambda _: None), "p50 is there"),
}
TABLES = {
    "a weight": ("weight", first_open(lambda x: x + 1), "weight_low"),
    "an end": ("weight_high", first_open(lambda x: x - 0.5), "weight_low"),
    "a smoothed average": ("mean_smoothed", first_open(lambda _: -1.0), "mean_smoothed"),
    "an average": ("mean", first_open(lambda _: 101.0), "mean_low, mean"),
    "a grade": ("quality", first_open(lambda x: "good" if x != "good" else "noise"), "quality"),
    "a missing number": ("mean", first_open(lambda _: None), "mean is there"),
    "a closed cell": ("is_open", first_open(lambda _: False), "is there for a closed cell"),
    "a name": ("cell", first_open(lambda x: f"{x}x"), "declared grid"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_changed_table_is_found(made, name, tmp_path):
    """Numbers that do not follow from each other are named."""
    column, change, message = TABLES[name]
    found = problems(tmp_path, changed(made[0].table, column, change), made[0].manifest)
    assert any(message in one for one in found), found


@pytest.mark.parametrize("name", SHAPE_TABLES)
def test_a_changed_distribution_is_found(made, name):
    """Statistics of a cell are those of one distribution, and those that are not are named."""
    column, change, message = SHAPE_TABLES[name]
    table = changed(made[2].table, column, change)
    found = list(check_presence_numbers(table, made[2].manifest))
    assert any(message in one for one in found), found


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"statistics": ["mean", "users"]}, "both mean and users"),
        ({"statistics": ["p50", "p50.0"]}, "that no release has"),
        ({"statistics": ["share<900"]}, "that no release has"),
        ({"statistics": ["p50", "share<25"]}, "which no such release has"),
    ],
)
def test_statistics_of_a_strangers_manifest_are_named(made, plan, message):
    """A manifest with statistics that are none, or not those of the table, is no crash."""
    manifest = made[2].manifest | {"plan": made[2].manifest["plan"] | plan}
    assert any(message in one for one in check_presence_table(made[2].table, manifest))


def test_left_out_cells_are_found(made, tmp_path):
    """A folder without its closed cells is not that of the declared grid."""
    table = made[0].table.filter(pc.field("is_open"))
    assert table.num_rows < made[0].table.num_rows
    assert problems(tmp_path, table, made[0].manifest)


def stage(number, **fields):
    """Return a change of a stage."""

    def change(manifest):
        manifest["plan"]["stages"][number] |= fields

    return change


def guarantee(**fields):
    """Return a change of the guarantee."""

    def change(manifest):
        manifest["guarantee"] |= fields

    return change


MANIFESTS = {
    "a smaller loss of a stage": (stage(0, epsilon=0.001), "not that of its noise"),
    "a smaller loss of all": (guarantee(epsilon_spent="1"), "more than guarantee/epsilon_spent"),
    "a sensitivity": (stage(-1, sensitivity=2**19, epsilon=0.1), "sensitivity below"),
    "a scale": (stage(-1, scale=3e6), "not that of the published map"),
    "a promise": (guarantee(promise="Nothing is learned."), "guarantee/promise"),
    "a factor": (guarantee(probability_factor=2.0), "probability_factor"),
    "a grid": (lambda m: m["grid"].update(fingerprint="0" * 64), "declared grid"),
    "a threshold": (lambda m: m["plan"].update(open_from=0.5), "open_from"),
    "an unknown field": (lambda m: m.update(users=5), "breaks its schema"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_changed_statement_is_found(made, name, tmp_path):
    """Losses, scales and words that do not agree are named."""
    change, message = MANIFESTS[name]
    manifest = copy.deepcopy(made[0].manifest)
    change(manifest)
    found = problems(tmp_path, made[0].table, manifest)
    assert any(message in one for one in found), found


def test_nothing_that_was_public_is_in_the_folder(made, tmp_path):
    """Neither users nor records, nor fingerprints, shares of bad rows, or losses of units."""
    folder = made[0].write(tmp_path / "map")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert not {"rules", "losses", "cells", "occupancy_fingerprint"} & manifest.keys()
    assert not {"users", "records"} & {*made[0].columns}
    assert "min_users" not in (folder / "manifest.json").read_text()


def test_another_model_is_another_door(tmp_path):
    """A plan for public presence, or for another reading, is refused; nothing is spent."""
    dataset = hv.read(records(), **OPTIONS)
    other = hv.declare(**OPTIONS | {"bounds": (0, 90)})
    book = hv.Ledger(tmp_path / "l.sqlite", dataset="cars", budget=1)
    with pytest.raises(InputError, match="another declared reading"):
        hv.release(dataset, hv.plan(other, epsilon=1, fleet=2000), ledger=book)
    with pytest.raises(InputError, match="no meaning"):
        hv.plan(dataset, epsilon=1, fleet=2000, method="per-cell")
    with pytest.raises(InputError, match="name the same statistics where the records are read"):
        hv.plan(dataset, epsilon=1, fleet=2000, statistics="p50")
    binned = hv.declare(**OPTIONS, statistics="share<25")
    with pytest.raises(InputError, match=r"'share<30' needs records counted by bin"):
        hv.plan(binned, epsilon=1, fleet=2000, statistics=("p50", "share<30"))
    with pytest.raises(InputError, match="another declared reading"):
        hv.release(dataset, hv.plan(binned, epsilon=1, fleet=2000), ledger=book)
    with pytest.raises(InputError, match="fleet"):
        hv.plan(dataset, epsilon=1)
    with pytest.raises(InputError, match="needs public presence"):
        hv.capacity(dataset, epsilon=1)


def test_constants_of_the_mechanism_are_part_of_a_request(monkeypatch):
    """A version with another constant finishes no release that this one began."""
    request = hv.plan(hv.declare(**OPTIONS), epsilon=1, fleet=2000).request
    before = identify(request, "cars")
    names = mechanism_constants()
    assert {"presence_design.RESIDUAL_CLIPPED", "contribution.PARTS"} <= names.keys()
    assert not any(name.startswith("presence_decoding") for name in names)
    monkeypatch.setattr(presence_design, "RESIDUAL_CLIPPED", 3)
    assert identify(request, "cars") != before


def test_grades_follow_from_intervals():
    """Without differences between cells every average is noise; closed cells are closed."""
    is_open = np.array([True, True, True, False])
    mean = np.array([30.0, 30.0, 30.0, np.nan])
    equal = grade_means(mean - 1, mean + 1, mean, 100.0, is_open)
    assert equal == ["noise", "noise", "noise", "closed"]
    apart = np.array([10.0, 30.0, 50.0, np.nan])
    assert grade_means(apart - 1, apart + 1, apart, 100.0, is_open)[:3] == ["good"] * 3
    units = np.array([100.0, 10.0, 1.0, np.nan])
    assert grade_counts(units - 8, units + 8, units, is_open) == [
        *("good", "caution", "noise", "closed"),
    ]
