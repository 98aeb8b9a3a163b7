"""A new look at values is one class: it is planned, saved, released, verified and shown."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

import hexveil as hv
from hexveil.accounting.error_model import ErrorModel, constant_error
from hexveil.mechanisms.contract import DONE
from hexveil.mechanisms.looks import ClippingKind, lattice_of, weighted_losses
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.looks.weighted_mean import WeightedMean
from hexveil.mechanisms.looks.weighted_ranges import WeightedStages
from hexveil.planning import codec, saved_plans  # noqa: F401  it knows all kinds
from hexveil.planning.saved_plans import decode, encode
from mechanisms.listed_weights import ListedWeights
from mechanisms.setting import dataset_of


@dataclass(frozen=True, eq=False)
class RecordWeights(ClippingKind):
    """Plain means, as user means with weights by records in the range of the bounds."""

    mode: ClassVar[str] = "bounds"
    basis: ClassVar[str] = "worst case"

    @staticmethod
    def weight(occupancy):
        """Return twice the records of each pair: `verify` knows means in half quanta."""
        return ListedWeights(occupancy, 2 * occupancy.local().n)

    def mean_error(self, problem, rows):
        """Return the error of noise alone."""
        noise = rows.mean_noise(problem)
        constant = constant_error("mean", problem.occupancy)
        return ErrorModel("mean", problem.span, noise, np.zeros_like(noise), constant)

    def losses(self, problem, rows):
        """Return the losses of weighted means."""
        given = self.weight(problem.occupancy), (rows.mean_noise(problem),)
        return weighted_losses(problem.occupancy, *given, self.shared(problem.request.delta))

    def stages(self, plan, scale):
        """Return the one stage."""
        weight = self.weight(plan.problem.occupancy)
        mean, error = WeightedMean(weight.occupancy, weight, plan.mean_noise), plan.error_models
        return ToyStages(mean, lattice_of(plan, scale), plan.booked_losses, error["mean"])


@dataclass(frozen=True, eq=False)
class ToyStages(WeightedStages):
    """Its stage: weighted sums of all cells."""

    error: ErrorModel

    @property
    def law(self):
        """Return the noise."""
        return self.error.law

    def next_stage(self, earlier):
        """Return the only stage."""
        ends, scales = (0, self.lattice.steps), self.mean.scales(self.lattice.steps)
        return DONE if earlier else self.mean.stage(CELLS, self.law, ends, scales)

    def mean_errors(self, outputs):  # noqa: ARG002
        """Return the error model."""
        return self.error

    def view(self, outputs):  # noqa: ARG002
        """Return that no range hides anything."""
        return


def test_a_look_is_one_class(tmp_path, monkeypatch):
    """With a line in the codec's registry nothing else knows of it."""
    known = codec.NAMES["ClippingKind"]
    monkeypatch.setitem(codec.NAMES, "RecordWeights", RecordWeights)
    monkeypatch.setitem(codec.NAMES, "ClippingKind", known | RecordWeights)
    codec._hints.cache_clear()
    dataset = dataset_of([[3, 1], [1, 2], [2, 5]], [30, 8, 20, 4, 9, 55])
    plain = hv.plan(dataset, epsilon=2, clipping_range="bounds", advise=False)
    largest = dataset.occupancy.largest_count
    allocation = replace(
        plain.allocation, clipping=RecordWeights(), contribution_cap=largest,
        contribution_factor=np.ones(3),
    )  # fmt: skip
    times = float(plain.changed(allocation=allocation).epsilon) / 2 * (1 + 1e-9)
    plan = plain.changed(allocation=allocation.with_noise_scaled(times))
    assert 1.99 < plan.epsilon <= 2
    assert encode(decode(encode(plan), plan)) == encode(plan)
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"), dataset)
    assert isinstance(loaded.allocation.clipping, RecordWeights)
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="toys", budget=3)
    made = hv.release(dataset, loaded, ledger=book, accept_noise=True)
    folder = made.write(tmp_path / "map")
    hv.verify(folder)
    assert "</html>" in (folder / "report.html").read_text("utf-8")
    codec._hints.cache_clear()
