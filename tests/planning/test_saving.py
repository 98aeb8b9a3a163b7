"""A plan saved and loaded is the same plan; a folder that was touched is refused in a sentence."""

import json
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from examples import some
from hexveil.mechanisms import ThresholdMechanism
from planning import kinds_of_plans
from planning.kinds_of_plans import KINDS, records_of
from planning.sums import CITY, small_city, sums_of


def planned(source, **options):
    """Return a plan within its bounds, without advice."""
    usual = {"bounds": (-5, 15), "epsilon": 8, "advise": False, "clipping_range": "bounds"}
    return hv.plan(source, **usual | options)


@pytest.fixture
def city():
    """Return a small city of three hexagons in one hour."""
    return small_city()


@pytest.fixture
def saved(city, tmp_path):
    """Return the folder of a plan of the city."""
    return planned(city, bounds=None).save(tmp_path / "plan")


@pytest.mark.parametrize("kind", some(KINDS, 6))
def test_a_loaded_plan_is_the_saved_one(kind, tmp_path):
    """Whatever was asked by whatever method, the plan read back equals the plan written.

    Nothing that it states or decides differs: saved again it is the same to the bit.
    """
    records = records_of(kind)
    plan = kinds_of_plans.planned(kind, records)
    folder = plan.save(tmp_path / "plan")
    loaded = hv.Plan.load(folder, records)
    again = loaded.save(tmp_path / "again")
    for file in folder.iterdir():
        assert (again / file.name).read_bytes() == file.read_bytes()
    has_bound = plan.is_single and plan.single.kind == "moments"
    bounded = plan.with_lower_bound() if has_bound else plan
    assert np.array_equal(loaded.losses(), plan.losses())
    assert (loaded.epsilon, loaded.requested_epsilon) == (plan.epsilon, plan.requested_epsilon)
    assert loaded.to_json() == bounded.to_json()
    if has_bound:
        assert loaded.table.equals(plan.table)
        assert loaded.users.equals(plan.users)
    assert loaded.facts is records.public


def test_dropped_pairs_come_back(city, tmp_path):
    """Pairs that a plan drops stay dropped in the plan that is read back."""
    plan = planned(city, bounds=None, epsilon=2, method="clip-user")
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"), city)
    kept = plan.contributions("mean")
    assert (kept == 0).any()
    assert np.array_equal(loaded.contributions("mean"), kept)


def test_files_are_for_readers(city, saved):
    """The folder has the four files, readable tables, and no user by more than a number."""
    assert sorted(file.name for file in saved.iterdir()) == [
        "arrays.bin", "cells.parquet", "plan.json", "users.parquet",
    ]  # fmt: skip
    words = json.loads((saved / "plan.json").read_text("utf-8"))
    assert words["format"] == 3
    assert words["plan"]["request"]["epsilon"] == "8"
    assert words["figures"]["certificate"]["about"] == "mean error"
    assert words["records"][""]["bounds"] == ["0", "60"]
    assert "run file (TOML)" in words["goes_with"]
    assert pq.read_schema(saved / "users.parquet").names == [
        "user", "cells", "records", "factor", "loss",
    ]  # fmt: skip
    loaded = hv.Plan.load(saved, city)
    shown = pq.read_table(saved / "cells.parquet").select(loaded.table.column_names)
    assert shown.equals(loaded.table)
    usual = saved.with_name("usual")
    usual.mkdir()
    assert saved.stat().st_mode == usual.stat().st_mode


def test_saving_twice_says_the_same(city, tmp_path):
    """Equal plans have equal digests, and a loaded plan is saved as it was."""
    first = planned(city, bounds=None).save(tmp_path / "first")
    again = planned(city, bounds=None).save(tmp_path / "again")
    third = hv.Plan.load(first, city).save(tmp_path / "third")
    texts = {(folder / "plan.json").read_text("utf-8") for folder in (first, again, third)}
    assert len(texts) == 1


def test_nothing_is_overwritten(city, saved, tmp_path):
    """An existing folder or file, and a place that is not there, are refused and left alone."""
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    plan = planned(city, bounds=None, epsilon=9)
    with pytest.raises(hv.InputError, match="plan exists; a saved plan is never changed"):
        plan.save(saved)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before
    for where in (tmp_path / "no" / "plan", saved / "plan.json" / "plan"):
        with pytest.raises(hv.InputError, match="cannot be made"):
            plan.save(where)
    assert [file.name for file in tmp_path.iterdir()] == ["plan"]


def test_a_full_disk_leaves_nothing(city, tmp_path, monkeypatch):
    """Where writing fails midway, one sentence says so and no file stays."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(hv.StorageError, match=r"could not be saved .*No space left"):
        planned(city, bounds=None).save(tmp_path / "plan")
    assert list(tmp_path.iterdir()) == []


def test_an_own_mechanism_is_not_saved(city, tmp_path):
    """A mechanism that this package does not know by name cannot be read back, so it is refused."""

    @dataclass(frozen=True, repr=False)
    class Third(ThresholdMechanism):
        """Keep as much as the third largest user has."""

        def rank(self, epsilon):  # noqa: ARG002  part of the contract
            """Return 3."""
            return 3

        def epsilon_range(self, rank):
            """Return every loss for rank 3."""
            return (Fraction(0), None) if rank == 3 else None

    plan = planned(city, bounds=None, method="equal-split", mechanism=Third())
    with pytest.raises(hv.InputError, match=r"one of hexveil's, got Third"):
        plan.save(tmp_path / "plan")
    assert list(tmp_path.iterdir()) == []


def refused(folder, message):
    """Assert that loading is refused in one sentence that names the folder."""
    with pytest.raises(hv.InputError, match=message) as caught:
        hv.Plan.load(folder, small_city())
    text = str(caught.value)
    assert str(folder) in text
    assert text.endswith((".", "?"))
    assert "\n" not in text


@pytest.mark.parametrize("name", ["plan.json", "arrays.bin", "cells.parquet", "users.parquet"])
def test_each_file_is_needed(name, saved):
    """A missing, an empty, a cut and an unreadable file are each refused, those read by name."""
    whole = (saved / name).read_bytes()
    shown = "was edited" if name.endswith("parquet") else f"{name} (is not|does not say)"
    for damage in (b"", whole[: len(whole) // 2], b"\x00" * 100, b"[1, 2]", b"NaN", b"\xff{"):
        (saved / name).write_bytes(damage)
        refused(saved, shown)
    (saved / name).unlink()
    refused(saved, "was edited" if name.endswith("parquet") else f"{name} is missing")
    (saved / name).mkdir()
    with pytest.raises(hv.StorageError, match=f"{name} cannot be read"):
        hv.Plan.load(saved, small_city())


def test_a_folder_is_needed(saved, tmp_path):
    """A folder that is not there, and a file, are refused."""
    refused(tmp_path / "other", "is not a folder")
    refused(saved / "plan.json", "is not a folder")


@pytest.mark.parametrize("other", [0, 2, "3", None, [1]])
def test_another_format_is_refused(other, saved):
    """A folder of another format says by which version it was saved, and is not read further."""
    words = json.loads((saved / "plan.json").read_text("utf-8"))
    (saved / "plan.json").write_text(json.dumps(words | {"format": other, "hexveil": "9.9"}))
    (saved / "cells.parquet").unlink()
    refused(saved, r"saved by hexveil 9\.9, and this version reads format 3")


def test_releasing_a_loaded_plan_replays_the_plan(city, saved, tmp_path):
    """Plan and loaded plan are one request: the second release is the first, at no cost."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=30)
    first = hv.release(city, hv.Plan.load(saved, city), ledger=book, accept_noise=True)
    spent = book.spent
    again = hv.release(city, planned(city, bounds=None), ledger=book, accept_noise=True)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.table.equals(first.table, check_metadata=True)
    assert again.manifest == first.manifest
    assert book.spent == spent == Fraction(math.ceil(first.epsilon * 10**12), 10**12)


def test_other_records_are_refused(city, saved, tmp_path):
    """Records of which one user has one more than planned are refused; nothing is booked."""
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=30)
    plan = hv.Plan.load(saved, city)
    counts = [[3, 2, 1], [2, 2, 0], [1, 4, 0], [6, 1, 0]]
    other = sums_of(counts, cells=CITY, value="speed")
    elsewhere = small_city(cells=None)
    finer = small_city(quantum="0.25")
    for records, released, loaded in (
        (other, r"other records \(who reported how often where", "who reported how often"),
        (elsewhere, "names of the cells differs", "names of the cells"),
        (finer, "quantum", "the quantum that"),
    ):
        with pytest.raises(hv.InputError, match=released):
            hv.release(records, plan, ledger=book, accept_noise=True)
        with pytest.raises(hv.InputError, match=loaded):
            hv.Plan.load(saved, records)
    assert book.spent == 0


def test_a_plan_goes_with_its_records(city, saved, tmp_path):
    """Neither is a plan of a bare occupancy saved, nor is a folder read for one."""
    bare = planned(city.occupancy)
    with pytest.raises(hv.InputError, match="of a bare occupancy is not saved"):
        bare.save(tmp_path / "bare")
    with pytest.raises(hv.InputError, match="load it with the records"):
        hv.Plan.load(saved, city.occupancy)


@pytest.mark.parametrize("counts", [[[1, 2], [0, 1]], [[1, 0], [0, 1]]])
def test_a_plan_with_a_known_variance_is_loaded(tmp_path, counts):
    """Cells of one record, among others or alone, have no noise for their variance."""
    source = sums_of(counts)
    plan = hv.plan(source, epsilon=2, statistics="variance", clipping_range="private", advise=False)
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"), source)
    assert loaded.losses().tolist() == plan.losses().tolist()
    assert loaded.error.tolist() == plan.error.tolist()
