"""Mechanisms of one cell on pairs that stay elsewhere: the plans and integers of pairs at hand."""

import dataclasses

import numpy as np
import pytest

import hexveil as hv
from distributed_blocks import distributed_dataset
from hexveil.mechanisms import noise
from hexveil.mechanisms.cell_blocks import block_stage
from hexveil.mechanisms.contract import LaplaceNoise, MemoryJournal, Meter, NoisyMax, execute
from hexveil.mechanisms.registry import REGISTRY
from hexveil.planning.alternatives import explain_absence
from hexveil.planning.cell_mechanisms import CellMechanisms, SavedStages
from hexveil.planning.release_allocation import allocation_of
from hexveil.planning.serialization import plan_codec
from hexveil.publishing.private_sums import private_sums
from hexveil.publishing.verification import verify
from publishing.setting import dataset_of
from publishing.test_cell_mechanisms import MECHANISMS, fleet, planned

ROOMS = (1, 30, 10_000)


class Noiseless:
    """A noise source that adds nothing, and notes all whole numbers that it was given."""

    def __init__(self):
        self.given = []

    def laplace(self, values, scales):
        """Return the values."""
        self.given += [values.copy(), np.broadcast_to(scales, values.shape).copy()]
        return values

    def noisy_max(self, scores, sizes, scale):
        """Return the first best candidate."""
        scores = np.repeat(scores[0], np.broadcast_to(sizes, scores.shape)[0])
        self.given += [scores, np.array(scale)]
        return np.array([np.argmax(scores)])


def run(dataset, plan):
    """Return what a plan gives the noise source, the outputs, estimates and ranges."""
    allocation, source = allocation_of(plan, dataset.public.lattice), Noiseless()
    meter = Meter(allocation.losses())
    outputs = execute(allocation, private_sums(dataset), source, MemoryJournal(), meter)
    (mean,) = allocation.decode(outputs)
    grid = mean.grid.start, mean.grid.step
    return source.given, outputs, (mean.estimate, *grid), allocation.released_ranges(outputs)


def assert_same(one, other):
    """Fail unless arrays are equal, kind and bits."""
    for array, same in zip(one, other, strict=True):
        np.testing.assert_array_equal(array, same, strict=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_blocks_plan_measure_and_decode_as_one_machine(mechanism):
    """Losses, errors, whole numbers before noise, scales, estimates and ranges, to the last bit."""
    predicts = mechanism == "Auto(trials=16)"
    whole = fleet(n_cells=2 if predicts else 5)
    # Predictions take long, and the search for the common loss is the same for all.
    asked = {"method": "equal-split" if predicts else "per-cell"}
    here = planned(whole, mechanism, **asked)
    given, outputs, decoded, ranges = run(whole, here)
    for room in ROOMS[predicts:]:
        data = distributed_dataset(whole, room)
        there = planned(data, mechanism, **asked)
        assert isinstance(there.allocation.clipping, CellMechanisms)
        assert there.table.equals(here.table)
        assert there.users.equals(here.users)
        assert (there.cell_epsilon, there.l0_epsilon) == (here.cell_epsilon, here.l0_epsilon)
        assert (
            plan_codec.pack_decisions(there)[1].keys() == plan_codec.pack_decisions(here)[1].keys()
        )
        integers, rows, numbers, found = run(data, there)
        assert_same(integers, given)
        assert list(rows) == list(outputs)
        assert_same(rows.values(), outputs.values())
        assert_same(numbers, decoded)
        assert found == ranges


def test_every_mechanism_of_a_cell_is_compared():
    """Those left out above choose a cap by rank, and are planned by caps of all cells at once."""
    compared = {mechanism.split("(")[0] for mechanism in MECHANISMS}
    assert compared == REGISTRY.keys() - {"Baseline", "OptimalClipping"}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["FixedQuantile(candidates=32)"])
def test_a_release_books_and_shows_the_same(mechanism, tmp_path, monkeypatch):
    """Without noise both show one table and state one cost; the saved plan comes back."""
    monkeypatch.setattr(noise, "add_laplace", lambda values, _: values)
    monkeypatch.setattr(noise, "noisy_max", lambda scores, _: int(np.argmax(scores)))
    whole = fleet()
    there = distributed_dataset(whole, 30)
    made = planned(there, mechanism)
    loaded = hv.Plan.load(made.save(tmp_path / "plan"), there.occupancy)
    assert plan_codec.encode(loaded) == plan_codec.encode(made)
    books = [
        hv.Ledger(tmp_path / f"{name}.sqlite", dataset="buses", budget=50)
        for name in ("there", "here")
    ]
    shown, same = (
        hv.release(data, plan, ledger=book, accept_noise=True)
        for data, plan, book in zip(
            (there, whole), (loaded, planned(whole, mechanism)), books, strict=True
        )
    )
    assert shown.table.equals(same.table)
    assert books[0].remaining == books[1].remaining
    for key in ("privacy_steps", "epsilon"):
        assert shown.manifest["plan"].get(key) == same.manifest["plan"].get(key)
    assert shown.manifest["cells"] == same.manifest["cells"]
    assert hv.release(there, made, ledger=books[0], accept_noise=True).replayed
    shown.write(tmp_path / "out")
    assert verify.find_problems(tmp_path / "out") == ()


@pytest.mark.slow
def test_what_comes_to_the_driver_is_bounded_by_cells_users_and_candidates(monkeypatch):
    """No answer of a plan and its stages is as large as the pairs; runs of users cost no bit."""
    counts = np.random.default_rng(9).poisson(3, (400, 12)) + 1
    whole = dataset_of(counts, 30 * hv.Occupancy.from_dense(counts).n)
    there, sums = distributed_dataset(whole, 900), 300
    made = planned(there, "FixedQuantile(candidates=16)")
    monkeypatch.setattr(block_stage, "MOST_SUMS", sums)
    again = planned(there, "FixedQuantile(candidates=16)")
    np.testing.assert_array_equal(again.losses(), made.losses())
    store = vars(there.sums)["_store"]
    store.received.clear()
    given, *_ = run(there, dataclasses.replace(again))
    assert_same(given, run(whole, planned(whole, "FixedQuantile(candidates=16)"))[0])
    blocks = len(store.by_cell)
    largest = max(size for _, size in store.received)
    # A user and a sum in each block; of cells two choices with their scores.
    assert largest <= 8 * max(2 * (sums + blocks), 12 * 2 * (17 + 1)) < 8 * counts.size / 2


@pytest.mark.parametrize(("part", "stages"), [(0.2, 0), (0.7, 1)])
def test_stages_in_blocks_that_cost_more_than_was_booked_are_not_drawn(part, stages):
    """The meter refuses the choice, or the sum once the choice was drawn."""
    there = distributed_dataset(fleet(), 30)
    plan = planned(there, "Levy(gamma=1)")
    allocation, journal = allocation_of(plan, there.public.lattice), MemoryJournal()
    meter = Meter(part * allocation.losses())
    with pytest.raises(hv.HexveilError, match="more than was booked"):
        execute(allocation, private_sums(there), Noiseless(), journal, meter)
    assert len(journal.rows) == stages


def test_a_request_that_blocks_were_not_asked_about_has_no_bound():
    """Less noise than the losses were computed for, or noise of another kind, is refused."""
    there = distributed_dataset(fleet(), 30)
    plan = planned(there, "AKMV(candidates=32)")
    stage, n_users = (
        allocation_of(plan, there.public.lattice).next_stage({}),
        there.occupancy.n_users,
    )
    (request, *_), (report, *others) = stage.noise({}), stage.sensitivity({})
    assert (report.loss_lower_bound(request, n_users) > 0).any()
    assert not any(own.loss_lower_bound(request, n_users).any() for own in others)
    for wrong in (NoisyMax(request.scale * 0.99), LaplaceNoise(np.array([request.scale]))):
        assert np.isinf(report.loss_lower_bound(wrong, n_users)).all()


def test_losses_of_pairs_stay_where_the_pairs_are():
    """A number for each pair would fill the memory that blocks are for."""
    plan = planned(distributed_dataset(fleet(), 30), "Levy(gamma=1)")
    assert explain_absence(plan) is None
    with pytest.raises(hv.InputError, match="in one machine's memory"):
        plan.pair_losses()


def test_refusals_of_blocks_are_those_of_one_machine(monkeypatch):
    """A cap that fills no array, a foreign choice, and choices with too many candidates."""
    whole = fleet()
    there, asked = distributed_dataset(whole, 30), 'ArrayAveraging("wrap_around", 100000)'
    said = []
    for data in (whole, there):
        with pytest.raises(hv.InputError, match="no array is filled") as refused:
            planned(data, asked)
        said.append(str(refused.value))
    assert said[0] == said[1]
    plan = planned(there, "Auto(trials=2)")
    saved, cost = SavedStages.of(plan.allocation.clipping), plan.cell_epsilon
    with pytest.raises(hv.InputError, match="has a choice that"):
        dataclasses.replace(saved, choices=("[1]",) * 3).allocate(plan.problem, cost)
    with pytest.raises(hv.InputError, match="come out otherwise in this version"):
        dataclasses.replace(saved, stages="0" * 64).allocate(plan.problem, cost)
    monkeypatch.setattr(block_stage, "MOST_SCORES", 64)
    with pytest.raises(hv.InputError, match=r"66 candidates together.* fewer candidates"):
        planned(there, "AKMV(candidates=21)")
