"""Releases with a clipping range per cell: what is booked, published, replayed and verified."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms import noise
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.public_metadata import ValueLattice
from hexveil.publishing import pipeline
from hexveil.publishing.verification import verify
from publishing.releases import forge_manifest, problems_after, statements_of
from publishing.setting import dataset_of, hexagons

CELLS, EPSILON = 14, 20
MIDDLES = np.array([20, 21, 22, 20, 19, 21, 58, 22, 20, 18, 23, 20, 21, 20])
"""Typical values of the cells: that numbered 6 differs much from the others."""


def uneven_map(users=60):
    """Return records of users in a few cells each, of which one differs much from the others."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(1.2, (users, CELLS))
    counts[np.arange(users), np.arange(users) % CELLS] += 1
    dense = np.clip(MIDDLES + rng.normal(0, 2, (users, CELLS)), 0, 60)
    totals = np.rint(counts * dense * 10).astype(np.int64).T[counts.T > 0]
    scale = ValueLattice.of((0, 60), "0.1")
    return dataset_of(counts, totals, scale=scale, cells=hexagons(CELLS), value_unit="km/h")


def drawn(seed):
    """Return noise that is the same in every run."""
    return SimulatedNoise(np.random.default_rng(seed), 1)


def planned_fleet():
    """Return the data set and its plan."""
    dataset = uneven_map()
    return dataset, hv.plan(dataset, epsilon=EPSILON, clipping_range="per-cell", advise=False)


@pytest.fixture(scope="module")
def fleet():
    """Return the data set and its plan."""
    return planned_fleet()


@pytest.fixture(scope="module")
def made(fleet, tmp_path_factory):
    """Return a release, its folder and its ledger."""
    dataset, plan = fleet
    home = tmp_path_factory.mktemp("ranges")
    book = hv.Ledger(home / "ledger.sqlite", dataset="buses", budget=100)
    with pytest.MonkeyPatch.context() as patch:
        # The same ranges in every run: which cells move depends on the noise.
        patch.setattr(pipeline, "VettedNoise", partial(drawn, 4))
        release = hv.release(dataset, plan, ledger=book)
    return release, release.write(home / "map"), book


# ---- verification ----


def change_cell(number, **changes):
    """Return a change of a cell's stated range."""
    return lambda manifest: manifest["cells"][number]["noised"][0]["clipping_range"].update(changes)


def kept_cell(manifest):
    """Return the number of a cell that keeps the range of the first look."""
    ranges = [cell["noised"][0]["clipping_range"] for cell in manifest["cells"]]
    return next(number for number, one in enumerate(ranges) if not one["moved"])


def steps_of(manifest):
    """Return the privacy steps of a manifest; the first has the histogram."""
    return manifest["plan"]["privacy_steps"]


def test_a_release_in_stages_is_booked_once_and_shown_again(fleet, book, tmp_path):
    """A replay shows the same, also smoothed, and costs nothing; its folder verifies."""
    dataset, plan = fleet
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert not made.replayed
    assert plan.epsilon <= book.spent < plan.epsilon + Fraction(1, 10**11)
    # The mutant that stores nothing has empty ranges.
    with np.errstate(all="ignore"):
        smooth = [
            hv.release(dataset, plan, ledger=book, accept_noise=True, estimates=("raw", "smoothed"))
            for _ in range(2)
        ]
    assert smooth[0].replayed
    assert smooth[0].table.equals(smooth[1].table)
    assert smooth[0].table["mean_noisy"].equals(made.table["mean_noisy"])
    assert len(book.entries()) == 1
    assert plan.epsilon <= book.spent < plan.epsilon + Fraction(1, 10**11)
    assert verify.find_problems(smooth[0].write(tmp_path / "map")) == ()


@pytest.mark.parametrize("call", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_draw_that_stops_midway_is_lost_and_paid_again(call, fleet, book, monkeypatch):
    """Stopped at any call of the noise door: nothing of it is stored, and none is drawn again."""
    dataset, plan = fleet
    real, calls = noise.add_laplace, []

    def stopping(*arguments):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as stopped:
        stopped.setattr(noise, "add_laplace", stopping)
        with pytest.raises(KeyboardInterrupt):
            hv.release(dataset, plan, ledger=book, accept_noise=True)
    (entry,) = book.entries()
    assert (entry.state, entry.published) == ("marked", None)
    spent = book.spent
    assert spent >= plan.epsilon
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert not made.replayed
    assert book.spent == 2 * spent
    assert hv.release(dataset, plan, ledger=book, accept_noise=True).table.equals(made.table)


@pytest.mark.slow
def test_a_folder_is_verified_and_changes_are_found(made, tmp_path):
    """A range, a flag or a step that was changed does not fit the losses or the first look."""
    folder, manifest = made[1], statements_of(made[0])
    assert verify.find_problems(folder) == ()
    kept = kept_cell(manifest)
    steps = {step["step"]: index for index, step in enumerate(manifest["plan"]["privacy_steps"])}

    def change_step(name, **changes):
        return lambda one: one["plan"]["privacy_steps"][steps[name]].update(changes)

    changes = (
        change_cell(6, moved=False),
        change_cell(6, upper=manifest["cells"][6]["noised"][0]["clipping_range"]["upper"] + 1),
        change_cell(kept, lower=-1.0),
        change_cell(kept, moved=True),
        change_step("cells", moved=0),
        change_step("first_look", lower=0.0),
        change_step("pooled_histogram", centre=1000.0),
        change_step("pooled_histogram", votes=[10.0]),
        change_step("pooled_histogram", above=0.2),
        lambda one: steps_of(one)[0]["votes"].reverse(),
        lambda one: one["cells"][kept]["noised"][0].pop("clipping_range"),
    )
    for number, change in enumerate(changes):
        forge = partial(forge_manifest, change=change)
        assert problems_after(forge, folder, tmp_path / f"{number}"), number


def test_ranges_go_with_the_bounds_of_the_records(fleet, book):
    """A plan for narrower bounds is refused before anything is booked."""
    dataset, plan = fleet
    narrow = plan.changed(upper=plan.upper - 10.0)
    with pytest.raises(hv.InputError, match="leave bounds out of the plan"):
        hv.release(dataset, narrow, ledger=book, accept_noise=True)
    assert book.entries() == ()
