"""Folders of releases with private presence: what they hold, and what verification finds."""

import html
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.planning.feasibility.recommendation import GridTooFineWarning
from hexveil.publishing import folder as folders
from hexveil.publishing.dossier import dossier
from hexveil.publishing.kinds.presence_checks import (
    check_declared_statements,
    check_presence,
)
from hexveil.publishing.verification.verify import find_problems
from hexveil.report.promise_wording import probability_factor, promise
from publishing.releases import edited, said, statements_of, whole_of

DELTA = "1e-6"
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
    """Return maps, numbers of units, distributions, each also with a δ; then all beside counts."""
    file = tmp_path_factory.mktemp("book") / "l.sqlite"
    # Records that are counted by bin serve every statistic.
    dataset = hv.read(records(), **OPTIONS, statistics=SHAPES)
    fleet = hv.FleetDeclaration(2000, 3, 2)
    released = []
    for name, delta in (("pure", None), ("approximate", DELTA)):
        book = hv.Ledger(file, dataset=name, budget=9, delta=delta)
        for statistics in ("mean", "users"):
            plan = hv.plan(dataset, epsilon=4, fleet=fleet, statistics=statistics, delta=delta)
            released.append(hv.release(dataset, plan, ledger=book, accept_noise=True))
    assert released[2].epsilon == 4
    # Squares of μ add up: two releases of ε 4 lose less than 8.
    assert 4 < book.spent < 7
    for name, delta, epsilon in (("pure", None, 1), ("approximate", DELTA, 3)):
        book = hv.Ledger(file, dataset=name, budget=9)
        plan = hv.plan(dataset, epsilon=epsilon, fleet=fleet, statistics=SHAPES, delta=delta)
        released.append(hv.release(dataset, plan, ledger=book, accept_noise=True))
    # One booking for all of them.
    book = hv.Ledger(file, dataset="counted", budget=2)
    everything = {"statistics": (*SHAPES, "users"), "weights": {"users": 2}}
    plan = hv.plan(dataset, epsilon=2, fleet=fleet, **everything)
    released.append(hv.release(dataset, plan, ledger=book, accept_noise=True))
    assert book.spent == 2
    book = hv.Ledger(file, dataset="approximate", budget=9)
    spent = book.spent
    plan = hv.plan(dataset, epsilon=3, fleet=fleet, delta=DELTA, **everything)
    released.append(hv.release(dataset, plan, ledger=book, accept_noise=True))
    assert 0 < book.spent - spent < 3
    return released


def test_a_map_with_nothing_to_say_is_refused(tmp_path):
    """A grid too fine for the declared fleet is refused before anything is booked."""
    dataset = hv.read(records(), **OPTIONS | {"cells": hv.Cells(8, None, area=BOX)})
    with pytest.warns(GridTooFineWarning, match="coarser grid"):
        plan = hv.plan(dataset, epsilon=1, fleet=hv.FleetDeclaration(40))
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="pure", budget=9)
    with pytest.raises(InputError, match=r"coarser grid.*accept_noise"):
        hv.release(dataset, plan, ledger=book)
    assert book.spent == 0


def problems(tmp_path, table, manifest):
    """Return what verification says of a folder whose receipt fits its changed content."""
    return find_problems(folders.write(table, manifest, tmp_path / "map"))


def changed(table, name, change):
    """Return a table with one column changed by a function of its values."""
    index = table.column_names.index(name)
    values = change(table[name].to_pylist(), table["is_open"].to_pylist())
    return table.set_column(index, table.schema.field(index), pa.array(values, table[name].type))


def first_open(value):
    """Return a change of the first open cell."""

    def change(values, is_open):
        values[is_open.index(True)] = value(values[is_open.index(True)])
        return values

    return change


def another(value):
    """Return another grade."""
    return "good" if value != "good" else "noise"


MAP, SHAPES_MAP, COUNTED = 0, 4, 6
TABLES = {
    "an average": (MAP, "mean", lambda _: 101.0, "mean_low, mean"),
    "a smoothed average": (MAP, "mean_smoothed", lambda _: -1.0, "mean_smoothed"),
    "no range": (MAP, "mean_range_low", lambda _: 101.0, "no range within the bounds"),
    "a grade": (MAP, "quality", another, "quality"),
    "a missing number": (MAP, "mean", lambda _: None, "mean is there"),
    "a closed cell": (MAP, "is_open", lambda _: False, "is there for a closed cell"),
    "a name": (MAP, "cell", lambda x: f"{x}x", "declared grid"),
    "a median": (SHAPES_MAP, "p50", lambda _: 100.0, "above one of a higher level"),
    "an end": (SHAPES_MAP, "p85_low", lambda _: 101.0, "p85_low, p85"),
    "a share": (SHAPES_MAP, "share_at_least_40", lambda _: 1.5, "above that of a higher one"),
    "a bin": (SHAPES_MAP, "histogram_05", lambda x: x + 0.1, "do not add up to 1"),
    "a first grade": (SHAPES_MAP, "quality", another, "quality"),
    "another grade": (SHAPES_MAP, "p85_quality", lambda _: "closed", "p85_quality is not"),
    "a missing median": (SHAPES_MAP, "p50", lambda _: None, "p50 is there"),
    "its grade": (COUNTED, "users_quality", lambda _: "closed", "users_quality is not"),
    "a missing number of units": (COUNTED, "users", lambda _: None, "users is there"),
}
"""Number of a release, a column and its change, and what is said."""


@pytest.mark.parametrize("name", TABLES)
def test_a_changed_table_is_found(made, name, tmp_path):
    """Numbers that do not follow from each other are named; others: attack/test_forged_figures."""
    number, column, change, message = TABLES[name]
    changes = [made[number], *(made[7:] if number == COUNTED else [])]
    for one in changes:
        table = changed(one.table, column, first_open(change))
        place = tmp_path / f"{one.epsilon}"
        found = (
            problems(place, table, one.manifest)
            if number == MAP
            else check_presence(table, statements_of(one))
        )
        found = [*found]
        assert any(message in text for text in found), found


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"statistics": ["mean", "users"]}, "cell_cap does not belong"),
        ({"cell_cap": 2}, "cell_cap does not belong"),
        ({"statistics": ["p50", "p50.0"]}, "that no release has"),
        ({"statistics": ["share<900"]}, "that no release has"),
        ({"statistics": ["p50", "share<25"]}, "are not those of plan/statistics"),
    ],
)
def test_statistics_of_a_strangers_manifest_are_named(made, plan, message):
    """A manifest with statistics that are none, or not those of the table, is no crash."""
    own = statements_of(made[4])
    manifest = own | {"plan": own["plan"] | plan}
    assert any(message in one for one in check_declared_statements(manifest))


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


def lower_all(manifest):
    """State half of the loss, in all words that follow from it."""
    guarantee = manifest["guarantee"]
    spent = Fraction(2)
    guarantee |= {
        "epsilon_spent": "2",
        "promise": promise("user", spent, protect="presence", delta=Fraction(DELTA)),
        "probability_factor": probability_factor(spent),
    }


BY_DELTA = 2
MANIFESTS = {
    "a sensitivity": (MAP, stage(-1, sensitivity=2**19, epsilon=0.1), "sensitivity below"),
    "a promise": (MAP, guarantee(promise="Nothing is learned."), "guarantee/promise"),
    "a grid": (MAP, lambda m: m["grid"].update(fingerprint="0" * 64), "declared grid"),
    "a bin": (MAP, lambda m: m["plan"]["histogram"]["votes"].pop(), "plan/histogram is not"),
    "an edge": (MAP, lambda m: m["plan"]["histogram"]["edges"].reverse(), "plan/histogram is not"),
    "a stage of a histogram": (
        MAP,
        lambda m: m["plan"]["histogram"].update(stage="values"),
        "mean does not follow",
    ),
    "no histogram": (MAP, lambda m: m["plan"].pop("histogram"), "plan/histogram does not belong"),
    "an unknown field": (MAP, lambda m: m.update(users=5), "breaks its schema"),
    "a smaller loss of all": (BY_DELTA, lower_all, "more than guarantee/epsilon_spent"),
    "a smaller δ": (BY_DELTA, guarantee(delta="0.0000001"), "guarantee/promise"),
    "no δ": (BY_DELTA, lambda m: m["guarantee"].pop("delta"), "Gaussian noise keeps no pure"),
    "a δ above one unit": (BY_DELTA, guarantee(delta="0.001"), "below one over the number"),
    "a δ that is nothing": (BY_DELTA, guarantee(delta="0.000"), "no guarantee/delta"),
    "an enormous loss": (BY_DELTA, stage(-1, scale=1e-300), "not that of its noise"),
}
"""Number of a release, a change of its manifest, and what is said; figures alone are forged in
attack/test_forged_figures."""


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 5])
def test_texts_say_what_delta_means(made, number, tmp_path):
    """README.txt, page and dossier: the promise, what δ allows, and why it is below 1/n."""
    folder = made[number].write(tmp_path / "map")
    texts = [
        (folder / "README.txt").read_text(),
        html.unescape(re.sub(r"<[^>]*>", " ", (folder / "report.html").read_text())),
        str(dossier(folder)),
    ]
    for text in texts:
        said = " ".join(text.split())
        assert "and beyond that by at most 0.000001" in said
        assert "it would reveal 0.002 on average" in said
        assert "one over their number" in said
    assert "squares of μ" in texts[2]
    assert "pure" not in texts[0].lower()
    pure = (made[0].write(tmp_path / "pure") / "README.txt").read_text()
    assert "The number delta" not in pure
    assert "This is pure differential privacy" in pure


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (number == BY_DELTA))
        for name, (number, *_) in MANIFESTS.items()
    ],
)
def test_a_changed_statement_is_found(made, name, tmp_path):
    """Losses, scales and words that do not agree are named."""
    number, change, message = MANIFESTS[name]
    # What holds for averages with a δ does for distributions.
    for one in (made[number], *[made[5]] * (number == BY_DELTA)):
        manifest = edited(one.manifest, change)
        found = problems(tmp_path / f"{one.epsilon}", one.table, manifest)
        assert any(message in text for text in found), found


def test_nothing_that_was_public_is_in_the_folder(made, tmp_path):
    """Neither users nor records, nor fingerprints, shares of bad rows, or losses of units."""
    folder = made[0].write(tmp_path / "map")
    manifest = said(folder)
    assert not {"rules", "losses", "cells", "occupancy_fingerprint"} & manifest.keys()
    assert "losses" not in whole_of(folder)
    assert not {"users", "records"} & {*made[0].columns}
    assert "min_users" not in (folder / "manifest.json").read_text()


def test_another_model_is_another_door(tmp_path):
    """A plan for public presence, or for another reading, is refused; nothing is spent."""
    dataset = hv.read(records(), **OPTIONS)
    other = hv.declare(**OPTIONS | {"bounds": (0, 90)})
    book = hv.Ledger(tmp_path / "l.sqlite", dataset="cars", budget=1)
    with pytest.raises(InputError, match="another declared reading"):
        hv.release(dataset, hv.plan(other, epsilon=1, fleet=2000), ledger=book)
    binned = hv.declare(**OPTIONS, statistics="share<25")
    with pytest.raises(InputError, match="another declared reading"):
        hv.release(dataset, hv.plan(binned, epsilon=1, fleet=2000), ledger=book)
    with pytest.raises(InputError, match="needs public presence"):
        hv.capacity(dataset, epsilon=1)
