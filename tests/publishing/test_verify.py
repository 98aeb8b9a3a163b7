"""A release folder is checked from itself alone: whole ones pass, every kind of change is named."""

import json
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.publishing import folder, receipt
from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.table import build_table
from hexveil.publishing.verification import verify
from publishing import measuring
from publishing.releases import forge_json, forge_manifest, seal
from publishing.setting import manifest_of, plan_of

LEDGER = {"entry": 7, "chain": "ab" * 32}


def write(dataset, place, *, statistics=("mean",), ledger=LEDGER):
    """Write a release of chosen noisy numbers and return its folder; free without a ledger."""
    n_cells, kept = dataset.occupancy.n_cells, 0 if ledger is None else 1
    plan = plan_of(dataset, kept, 0.7, statistics=statistics, epsilon=Fraction(20))
    middle = (
        measuring.lattice(plan, dataset.public.lattice).steps * dataset.occupancy.records_per_cell
    )
    numbers = {"mean": 7 * np.arange(n_cells) + 31 if kept else middle}
    noisy = measuring.values_of(numbers, plan, dataset.public.lattice)
    table = build_table(plan, dataset.public, noisy)
    accuracy = accuracy_statement(plan, table, None)
    said = manifest_of("buses", dataset, plan, ledger, accuracy)
    return folder.write(table, said, place)


def test_in_python_the_manifest_is_returned_or_every_problem_is_named(city, tmp_path):
    """`hexveil.verify` takes a path or text; what is wrong with a folder is one error."""
    place = write(city, tmp_path / "map")
    assert hv.verify(str(place)) == json.loads((place / "manifest.json").read_text())
    (place / "README.txt").write_text("nothing is protected")
    (place / "more.txt").touch()
    with pytest.raises(hv.InputError, match=r"map is not as it was written: ") as told:
        hv.verify(place)
    assert {"README.txt", "more.txt"} <= set(re.findall(r"\w+\.txt", str(told.value)))
    with pytest.raises(hv.InputError, match="there is no folder"):
        hv.verify(tmp_path / "gone")


def change_parquet(column, by):
    def change(place):
        table = pq.read_table(place / "cells.parquet")
        index = table.column_names.index(column)
        numbers = table[column].to_numpy() + by
        table = table.set_column(index, table.schema.field(column), pa.array(numbers))
        pq.write_table(table, place / "cells.parquet")
        rows = table.drop_columns([c for c in ("geometry",) if c in table.column_names])
        pa.csv.write_csv(rows, place / "cells.csv")
        seal(place)

    return change


def change_manifest(change, *, sealed=True):
    if not sealed:
        return forge_json("manifest.json", change)
    return lambda place: forge_manifest(place, change)


CHANGES = {
    "README.txt was changed": lambda place: (place / "README.txt").write_text("trust me"),
    "report.html is missing": lambda place: (place / "report.html").unlink(),
    "extra.txt was added": lambda place: (place / "extra.txt").touch(),
    "receipt.json is missing": lambda place: (place / "receipt.json").unlink(),
    "receipt.json cannot be read": lambda place: (place / "receipt.json").write_text("{"),
    "mean_scale does not follow from mean_noisy": change_parquet("mean_scale", 0.25),
    "mean_raw does not follow from mean_noisy": change_parquet("mean_raw", 0.25),
    "mean_noisy has a number that is not on the grid": change_parquet("mean_noisy", 1e-6),
    "manifest.json cannot be read": lambda place: (place / "manifest.json").write_text("{"),
    "manifest.json is not a JSON object": lambda place: (place / "manifest.json").write_text("[]"),
    "different values of ledger": change_manifest(
        lambda said: said["ledger"].update(entry=8), sealed=False
    ),
    "breaks its schema at guarantee": change_manifest(
        lambda said: said["guarantee"].pop("epsilon_spent")
    ),
    "has schema version 9": change_manifest(
        lambda said: said.update(schema_version=9), sealed=False
    ),
    "has schema version unknown": change_manifest(
        lambda said: said.update(schema_version=["1"]), sealed=False
    ),
    "receipt.json has a version that this program does not know": forge_json(
        receipt.NAME, lambda said: said.update(receipt_version=2)
    ),
    "receipt.json lacks its files": forge_json(receipt.NAME, lambda said: said.pop("files")),
    "receipt.json lists no files": forge_json(
        receipt.NAME, lambda said: said.update(files=["cells.csv"])
    ),
    "more than 100 files": lambda place: [(place / f"{k}.txt").touch() for k in range(120)],
    "contains more beside its cells": change_manifest(
        lambda said: said["rules"].update({f"rule {k}": k for k in range(30_000)})
    ),
    "does not have the cells": change_manifest(lambda said: said["cells"].reverse()),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sentence", CHANGES)
def test_every_change_is_named(city, tmp_path, sentence):
    """What was changed, taken away or added is said by name, also under a new receipt."""
    place = write(city, tmp_path / "map")
    CHANGES[sentence](place)
    found = verify.find_problems(place)
    assert any(sentence in one for one in found), found


def test_problems_fit_a_terminal(city, tmp_path):
    """Of very many problems, and of very long names, a part is told."""
    place = write(city, tmp_path / "map")
    for number in range(60):
        (place / f"{number:02} {'x' * 200}.txt").touch()
    found = verify.find_problems(place)
    assert len(found) == verify.MAX_PROBLEMS + 1
    assert found[-1] == "And 30 more."
    assert max(map(len, found)) <= verify.MAX_PROBLEM_LENGTH + 3


def test_what_was_recomputed_and_what_not_is_said(city, tmp_path):
    """The verdict names the losses that it computed anew, and what a folder cannot show."""
    verdict = verify.check_folder(write(city, tmp_path / "map"))
    assert any(text.startswith("the sum of all losses") for text in verdict.recomputed)
    assert any("whether noise was drawn" in text for text in verdict.unknown)
    assert any("the loss of each privacy unit" in text for text in verdict.unknown)
