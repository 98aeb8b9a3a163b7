"""The grid: what is published is made of whole numbers and public facts, and of nothing else.

Declared, in each manifest, for each cell and statistic: where its grid starts, and its step. A
published mean is lower + y q / (2 N) for a whole number y, q the quantum and N the records; a
published variance is a public constant and a whole multiple of its scale / 2^30. Every whole
number can come out under every input.
"""

import random
from contextlib import ExitStack
from fractions import Fraction
from functools import cache
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack.path_audit import draws, pair_of
from attack.path_files import Setting
from hexveil.mechanisms import noise
from hexveil.mechanisms.looks.clipped_variance import STEPS, centring
from publishing.releases import said as manifest_of

EVERY = ("mean", "variance", "sd")
COUNTS = {"x": [6, 3, *[1] * 30], "y": [4, 2, *[1] * 30], "z": [5, 0, *[1] * 29]}
SETTINGS = {
    "each cell alone": Setting(COUNTS, {"method": "per-cell", "epsilon": 4, "statistics": EVERY}),
    "factors": Setting(
        COUNTS,
        {"epsilon": 2, "clipping_range": "bounds"},
        {"bounds": (-20, 60), "quantum": "0.1"},
    ),
    "factors, both": Setting(
        COUNTS, {"epsilon": 3, "statistics": EVERY, "objective": "max"}, {"quantum": "0.001"}
    ),
    "suppression": Setting(COUNTS, {"method": "clip-user", "epsilon": 2, "statistics": EVERY}),
    "a constant beside others": Setting(
        COUNTS | {"lonely": [1]}, {"method": "per-cell", "epsilon": 1, "statistics": EVERY}
    ),
}
each = pytest.mark.parametrize("name", SETTINGS)


def published(setting, folder, *, right=False):
    """Return the plan, the folder, and the whole numbers that the ledger stored, by statistic."""
    dataset = setting.dataset(setting.files(folder)[right])
    plan = setting.planned(dataset)
    side = "right" if right else "left"
    book = hv.Ledger(folder / f"{side}.sqlite", dataset="buses", budget=100)
    released = hv.release(dataset, plan, ledger=book, accept_noise=True)
    place = released.write(folder / side)
    (booking,) = book.entries()
    ((stage, numbers),) = booking.published.items()
    assert stage == "cells"
    return plan, place, by_statistic(plan, numbers, dataset.public.lattice.span_quanta)


@pytest.fixture(scope="module")
def release_of(tmp_path_factory):
    """Return a function that publishes a setting once; nobody changes its folder."""

    @cache
    def made(name, right):
        return published(SETTINGS[name], tmp_path_factory.mktemp("grid"), right=right)

    def release(name, *, right=False):
        return made(name, right)

    return release


def by_statistic(plan, numbers, steps):
    """Return a number for each cell: as stored, or the middle, and nothing, where none is drawn."""
    rest, found = list(numbers), {}
    for name, part in plan.error_models.items():
        records = plan.occupancy.records_per_cell.tolist()
        still = [steps * n if name == "mean" else 0 for n in records]
        live = part.noised.tolist()
        found[name] = [rest.pop(0) if own else still[g] for g, own in enumerate(live)]
    assert rest == []
    return found


def manifest(place):
    """Return the manifest of a folder."""
    return manifest_of(place)


def floats(table):
    """Return the columns of doubles by name."""
    return {
        field.name: table[field.name].to_numpy()
        for field in table.schema
        if pa.types.is_floating(field.type)
    }


def same(one, other):
    """Return whether two arrays of doubles are equal bit for bit."""
    return one.tobytes() == np.asarray(other, dtype=np.float64).tobytes()


def made_again(numbers, plan, said):
    """Return every column that depends on records, from stored whole numbers and public facts.

    Written down a second time, cell by cell, in plain Python.
    """
    columns = {}
    quantum = float(Fraction(said["bounds"]["quantum"]))
    for name, stored in numbers.items():
        part = plan.error_models[name]
        for g, y in enumerate(stored):
            lower, upper, records = plan.lower[g], plan.upper[g], plan.occupancy.records_per_cell[g]
            if name == "mean":
                whole, rest = divmod(y, 2 * int(records))
                noisy, ends = lower + quantum * (whole + rest / (2 * int(records))), (lower, upper)
            else:
                ends = 0.0, (upper - lower) ** 2 / 4
                noisy = part.noise[g] * (y / STEPS) + centring(part.clipped_share)[g]
                constant = 0.0 if records == 1 else part.unit[g] / 8
                noisy = part.unit[g] * noisy if part.noised[g] else constant
            raw = min(max(noisy, ends[0]), ends[1])
            low, high = max(raw - part.bound95[g], ends[0]), min(raw + part.bound95[g], ends[1])
            row = {"noisy": noisy, "raw": raw, "low": low, "high": high}
            for key, value in row.items():
                columns.setdefault(f"{name}_{key}", []).append(value)
    if "sd" in plan.statistics:
        root = {key: np.sqrt(columns[f"variance_{key}"]) for key in ("raw", "low", "high")}
        columns |= {f"sd_{key}": value for key, value in root.items()}
        columns["sd_bound95"] = np.maximum(root["raw"] - root["low"], root["high"] - root["raw"])
    return columns


@each
def test_every_double_is_a_function_of_stored_whole_numbers_and_public_facts(name, release_of):
    """All doubles of a folder are made again, bit for bit, from the ledger's whole numbers."""
    plan, place, stored = release_of(name)
    constants = any(not part.noised.all() for part in plan.error_models.values())
    assert constants == (name == "a constant beside others")
    assert {type(y) for numbers in stored.values() for y in numbers} == {int}
    again = made_again(stored, plan, manifest(place))
    found = floats(pq.read_table(place / "cells.parquet"))
    planned = {
        f"{part.name}_{key}": getattr(part, key)
        for part in plan.error_models.values()
        for key in ("scale", "bias", "error", "bound95")
    }
    assert set(found) == set(again) | set(planned)
    assert [key for key, column in found.items() if not same(column, (again | planned)[key])] == []


@each
def test_published_numbers_lie_on_the_declared_grid(name, release_of):
    """From the folder alone: each is its cell's start and whole steps, which are public facts.

    Only rounding of the last digits of a double is allowed.
    """
    _, one, _ = release_of(name)
    _, other, _ = release_of(name, right=True)
    said = manifest(one)
    assert said["cells"] == manifest(other)["cells"]
    for place in (one, other):
        table = pq.read_table(place / "cells.parquet")
        numbers = floats(table)
        for k, key in enumerate(part["statistic"] for part in said["cells"][0]["noised"]):
            parts = [cell["noised"][k] for cell in said["cells"]]
            start, step = (
                np.array([part[end] for part in parts]) for end in ("grid_start", "grid_step")
            )
            noisy, live = numbers[f"{key}_noisy"], step > 0
            assert (noisy[~live] == start[~live]).all()
            steps = (noisy - start)[live] / step[live]
            assert np.abs(steps - np.rint(steps)).max() < 1e-2
            assert np.abs(steps).max() > 1
            if key == "mean":
                grain = float(Fraction(said["bounds"]["quantum"])) / (
                    2 * table["records"].to_numpy()
                )
                assert np.allclose(step[live], grain[live], rtol=1e-12)
            else:
                assert np.allclose(step, numbers[f"{key}_scale"] / STEPS, rtol=1e-12)


NEAR = Setting(
    {"x": [2, 1, 1, 1]},
    {"method": "per-cell", "mechanism": hv.mechanisms.Baseline(), "epsilon": 2},
    {"bounds": (0, 4), "quantum": 1},
)
"""Noise of 8 steps; the two inputs are 16 steps apart."""
N = 40_000


@pytest.mark.slow
def test_every_whole_number_can_come_out_under_either_input(tmp_path):
    """Around both inputs' numbers, each whole number comes out under both: no gap, no offset.

    The rarest is 24 steps off at scale 8: its chance is tanh(1/16) exp(-3) = 0.0031, so that 124
    are expected of 40,000, and none with a chance of exp(-124); there are 33, under two inputs.
    """
    left, right, plan = NEAR.both(tmp_path)
    pair = pair_of(left, right, plan)
    assert pair.scales.tolist() == pytest.approx([8.0])
    assert (pair.right - pair.left).tolist() == [16]
    window = set(range(int(pair.left[0]) - 8, int(pair.right[0]) + 9))
    for dataset in (left, right):
        assert window <= set(draws(dataset, plan, N).ravel().tolist())


def test_the_door_takes_and_gives_whole_numbers_alone(tmp_path):
    """The library's noise is that on 64-bit integers, and the door hands on what it says."""
    for scale in (0.3, 7.0, float(STEPS)):
        measurement = noise._measurement(scale)
        assert str(measurement.input_domain) == "VectorDomain(AtomDomain(T=i64))"
        drawn = measurement(np.zeros(5, dtype=np.int64))
        assert {type(one) for one in drawn} == {int}
    seen, real = [], noise.add_laplace

    def watched(values, scales):
        seen.append((values, real(values, scales)))
        return seen[0][1]

    with patch.object(noise, "add_laplace", watched):
        plan, _, stored = published(SETTINGS["each cell alone"], tmp_path)
    ((values, drawn),) = seen
    assert values.dtype == drawn.dtype == np.int64
    assert drawn.tolist() == [y for name in plan.error_models for y in stored[name]]


POISONED = (
    *((np.random, name) for name in ("default_rng", "laplace", "normal", "random", "uniform")),
    *((random, name) for name in ("random", "uniform", "gauss", "expovariate", "normalvariate")),
)


def test_a_release_asks_no_continuous_sampler(tmp_path):
    """With numpy's and Python's samplers out of order, a release is made as ever."""

    def refuse(*_, **__):
        raise AssertionError("a continuous sampler was asked")

    with ExitStack() as stack:
        for owner, name in POISONED:
            stack.enter_context(patch.object(owner, name, refuse))
        _, place, _ = published(SETTINGS["factors, both"], tmp_path)
    assert (place / "cells.parquet").is_file()
