"""The loop of every mechanism: what it draws, what it refuses, and what it takes from a journal."""

# ruff: noqa: ARG002  stand-ins have the parameters of the contract

import inspect
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.base.errors import HexveilError, StorageError
from hexveil.mechanisms.contract import DONE, DrawnRow, MemoryJournal, Stage, execute, replay
from hexveil.mechanisms.sensitivity_report import UNMETERED, LaplaceNoise, Meter, NoisyMax, Separate
from hexveil.mechanisms.single_cell import CellProblem
from hexveil.mechanisms.single_cell.clipped_user_sums import LinearSum
from hexveil.mechanisms.stage_data import PrivateSums, Scores, Values
from mechanisms.scripted_noise import ScriptedNoise

SUMS = PrivateSums(np.array([5, 3, 9]))
CELL = CellProblem(np.array([3, 2, 1]), Fraction(0), Fraction(1), 10)


def quantile(epsilon=1):
    """Return an allocation of two stages: two choices, then a sum."""
    return hv.mechanisms.FixedQuantile(candidates=10, cap=2).allocate_cell(CELL, Fraction(epsilon))


class Unusable:
    """A noise source that must not be asked."""

    def laplace(self, values, scales):
        """Fail."""
        raise AssertionError("drawn")

    def noisy_max(self, scores, sizes, scale):
        """Fail."""
        raise AssertionError("drawn")


def test_all_stages_are_drawn_in_order():
    """Each stage sees the outputs before it, and the journal holds a row of each."""
    journal, noise = MemoryJournal(), ScriptedNoise([2, 8])
    allocation = quantile()
    outputs = execute(allocation, SUMS, noise, journal, Meter(allocation.losses()))
    assert list(outputs) == list(journal.rows) == ["range", "mean"]
    assert outputs["range"].tolist() == [[2, 8]]
    lower, upper = allocation.range_sum.clipping.ends(outputs)
    assert (lower.tolist(), upper.tolist()) == ([2], [8])
    assert noise.scales == allocation.range_sum.scales(np.array([6 * 1024])).tolist()


def test_rows_of_the_journal_are_taken_and_nothing_is_drawn_twice():
    """After a crash the rows that were stored stay, and only the others are drawn."""
    journal, allocation = MemoryJournal(), quantile()
    journal.rows["range"] = np.array([[3, 7]])
    first = execute(allocation, SUMS, ScriptedNoise(noise=1.0), journal, UNMETERED)
    assert first["range"].tolist() == [[3, 7]]
    again = execute(allocation, SUMS, Unusable(), journal, Meter(allocation.losses()))
    assert again["mean"].tolist() == first["mean"].tolist()
    rows = {name: row[0] for name, row in journal.rows.items()}
    assert replay(allocation, rows)["mean"].tolist() == first["mean"].tolist()


def test_a_stage_is_measured_before_its_draw_is_marked():
    """An error while measuring marks no draw as begun, so that none is lost."""

    class Marked(MemoryJournal):
        def draw_once(self, name, entries, draw):
            raise AssertionError(f"{name} was begun")

    short = PrivateSums(np.array([5, 3]))
    with pytest.raises(IndexError):
        execute(quantile(), short, Unusable(), Marked(), UNMETERED)


@pytest.mark.parametrize("rows", [{}, {"range": [1, 2]}, {"range": [1, 2, 3], "mean": [4]}])
def test_rows_of_another_width_are_refused(rows):
    """A row that is missing or has another width was not stored by this allocation."""
    with pytest.raises(StorageError, match="is not a single row of"):
        replay(quantile(), {name: np.array(row) for name, row in rows.items()})


def test_a_scale_below_the_booking_is_refused_before_it_is_drawn():
    """The meter counts the scales at the source: half the noise costs twice what was booked."""
    sound = hv.mechanisms.Baseline().allocate_cell(CELL, Fraction(1))

    @dataclass(frozen=True, eq=False)
    class Quiet(LinearSum):
        def noise(self, earlier):
            (request,) = super().noise(earlier)
            return (LaplaceNoise(request.scales / 2),)

    stage = sound.stages[0]
    fields = (stage.name, stage.counts, stage.weight, stage.low, stage.high, 10, Fraction(1))
    quiet = replace(sound, stages=(Quiet(*fields),))
    with pytest.raises(HexveilError, match="more than was booked for it, so no noise was drawn"):
        execute(quiet, SUMS, Unusable(), MemoryJournal(), Meter(quiet.losses()))


def test_rows_of_the_journal_count_at_the_meter():
    """What was drawn before a crash is added up too, so the second stage is refused."""
    allocation, journal = quantile(), MemoryJournal()
    journal.rows["range"] = np.array([[3, 7]])
    spent = allocation.stages[0].losses()
    with pytest.raises(HexveilError, match="more than was booked"):
        execute(allocation, SUMS, Unusable(), journal, Meter(1.5 * spent))


@pytest.mark.parametrize("scale", [0.0, np.nan])
def test_scales_without_a_loss_are_refused_by_the_meter(scale):
    """No scale, or one that is not a number, is not within any booking; see also `test_noise`."""
    report = Separate.of_one_entry(np.array([1, 0]))
    meter = Meter(np.array([1.0, 1.0]))
    with pytest.raises(HexveilError, match="more than was booked"):
        meter.authorise((LaplaceNoise(np.array([scale])),), (report,))


def test_the_meter_adds_up_what_each_user_loses():
    """Laplace noise costs moved/scale, a choice 2 moved/scale; bookings just below are refused."""
    requests = LaplaceNoise(np.array([2.0, 4.0])), NoisyMax(8.0)
    sums = Separate(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    choice = Separate.of_one_entry(np.array([2, 1]))
    exact = np.array([0.5 + 0.5 + 0.5, 1.0 + 0.25])
    Meter(exact).authorise(requests, (sums, choice))
    for user in range(2):
        short = exact.copy()
        short[user] *= 1 - 1e-13
        with pytest.raises(HexveilError):
            Meter(short).authorise(requests, (sums, choice))


def test_all_sums_of_a_stage_take_one_call():
    """A stage of several sums and choices draws its sums together, in the order of its queries."""

    class Many(DrawnRow):
        name, entries = "many", 4

        def noise(self, earlier):
            return LaplaceNoise(np.array([1.0])), NoisyMax(2.0), LaplaceNoise(np.array([3.0, 4.0]))

        def sensitivity(self, earlier):
            return (Separate.of_one_entry(np.array([0])),) * 3

        def measure(self, sums, earlier):
            scores = Scores(np.array([[0, 1]]), np.array([[1, 1]]))
            return Values(sums.total[:, :1]), scores, Values(sums.total[:, 1:])

    class One:
        def next_stage(self, earlier):
            return DONE if earlier else Many()

    class Counted(ScriptedNoise):
        calls = 0

        def laplace(self, values, scales):
            self.calls += 1
            return super().laplace(values, scales)

    noise = Counted([1])
    outputs = execute(One(), SUMS, noise, MemoryJournal(), UNMETERED)
    assert outputs["many"].tolist() == [[5, 1, 3, 9]]
    assert noise.calls == 1
    assert noise.scales == [1.0, 3.0, 4.0]


def test_private_types_show_nothing():
    """No value of a private array is in a repr."""
    shown = [
        repr(PrivateSums(np.array([12345]))),
        repr(Values(np.array([[12345]]))),
        repr(Scores(np.array([[12345]]), np.array([[1]]))),
    ]
    assert all("12345" not in text and "(private)" in text for text in shown)


def test_only_measure_receives_sums():
    """Noise, sensitivity, branch and decoding cannot see sums: by their signatures."""
    for name in ("noise", "sensitivity"):
        assert list(inspect.signature(getattr(Stage, name)).parameters) == ["self", "earlier"]
    allocation = type(quantile())
    for name in ("next_stage", "estimate", "losses"):
        parameters = set(inspect.signature(getattr(allocation, name)).parameters)
        assert parameters <= {"self", "earlier", "outputs"}
