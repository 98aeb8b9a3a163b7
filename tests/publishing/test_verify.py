"""A release folder is checked from itself alone: whole ones pass, every kind of change is named."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.publishing import folder
from hexveil.publishing.estimates.accuracy import accuracy_statement
from hexveil.publishing.estimates.table import build_table
from hexveil.publishing.verification import untrusted_files, verify
from publishing import measuring
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


def test_problems_fit_a_terminal(city, tmp_path):
    """Of very many problems, and of very long names, a part is told."""
    place = write(city, tmp_path / "map")
    for number in range(60):
        (place / f"{number:02} {'x' * 200}.txt").touch()
    found = verify.find_problems(place)
    assert len(found) == untrusted_files.MAX_PROBLEMS + 1
    assert found[-1] == "And 30 more."
    assert max(map(len, found)) <= verify.MAX_PROBLEM_LENGTH + 3


def test_what_was_recomputed_and_what_not_is_said(city, tmp_path):
    """The verdict names the losses that it computed anew, and what a folder cannot show."""
    verdict = verify.check_folder(write(city, tmp_path / "map"))
    assert any(text.startswith("losses as far as") for text in verdict.recomputed)
    assert any("whether noise was drawn" in text for text in verdict.unknown)
    assert any("the loss of each privacy unit" in text for text in verdict.unknown)
