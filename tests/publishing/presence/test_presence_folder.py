"""Folders of releases with private presence: what they hold, and what verification finds."""

import html
import re

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
)
from hexveil.publishing.verification.verify import find_problems
from publishing.releases import said, statements_of, whole_of

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
    """Return maps, numbers of units, distributions, each also with a δ."""
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
    assert find_problems(folders.write(table, made[0].manifest, tmp_path / "map"))


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
