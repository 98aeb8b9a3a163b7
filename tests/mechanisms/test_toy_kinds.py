"""A mechanism, and a statistic, that one file adds: through plan, release, verify and comparison.

Nothing behind a plan asks of which kind its components are: a test holds that, too.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.accounting.noise_law import Laplace
from hexveil.mechanisms import REGISTRY
from hexveil.mechanisms.contract import DONE, NoisyTotals
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning import codec, saved_plans
from hexveil.planning.component import PlanComponent
from hexveil.publishing import part_kinds
from hexveil.publishing.estimates.table import described_table, name_counted_cells
from hexveil.publishing.kinds import moment_checks, value_manifest
from hexveil.publishing.kinds.guarantee import loss_section
from hexveil.publishing.kinds.value_manifest import occupancy_of
from hexveil.publishing.verification.verify import find_problems
from mechanisms.user_average import UserAverage
from publishing.releases import forge_manifest, problems_after, statements_of
from publishing.setting import dataset_of, small_city

SOURCE = Path(hv.__file__).parent


# ---- a mechanism of one cell ----


def test_a_mechanism_of_a_file_goes_all_the_way(tmp_path, monkeypatch):
    """Planned, compared, saved, booked, drawn, written, verified and drawn as a page."""
    monkeypatch.setitem(REGISTRY, "UserAverage", UserAverage)
    dataset = small_city()
    options = {"epsilon": 4, "method": "per-cell", "advise": False}
    plan = hv.plan(dataset, mechanism="UserAverage()", **options)
    assert {row.name: row.is_planned for row in hv.compare(plan)}["per-cell"]
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"), dataset)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="city", budget=9)
    made = hv.release(dataset, loaded, ledger=book, accept_noise=True)
    folder = made.write(tmp_path / "map")
    stated = hv.verify(folder)
    assert {cell["mechanism"] for cell in statements_of(stated)["cells"]} == {"UserAverage()"}
    assert "UserAverage" in (folder / "report.html").read_text("utf-8")
    assert hv.release(dataset, plan, ledger=book, accept_noise=True).replayed
    assert 5 <= book.remaining < 5 + Fraction(1, 10**6)


# ---- a statistic ----


@dataclass(frozen=True, eq=False)
class TotalMoves:
    """A unit moves the total of a cell by at most its records times the span."""

    occupancy: Any
    span: int

    def loss_lower_bound(self, request, n_users):
        """Return each user's loss: its records over the scale, added up."""
        moved = self.span * self.occupancy.n / request.scales.ravel()[self.occupancy.cell]
        return np.bincount(self.occupancy.user, moved, n_users)


@dataclass(frozen=True, eq=False)
class TotalStages:
    """One stage: the totals of all cells."""

    facts: PublicMetadata
    scale: float

    @property
    def stage(self):
        """Return the only stage."""
        occupancy, span = self.facts.occupancy.local(), self.facts.lattice.span_quanta
        moves = TotalMoves(occupancy, span)
        return NoisyTotals("total", occupancy.n_cells, Laplace(self.scale), moves, self.totals)

    def totals(self, sums):
        """Return the total of each cell. PRIVATE."""
        cells = self.facts.occupancy
        return np.bincount(cells.local().cell, sums.total.ravel(), cells.n_cells).astype(np.int64)

    def losses(self):
        """Return the loss of each user, rounded up."""
        stage = self.stage
        (noise,), (moves,) = stage.noise({}), stage.sensitivity({})
        return np.nextafter(moves.loss_lower_bound(noise, self.facts.occupancy.n_users), np.inf)

    def next_stage(self, earlier):
        """Return the stage, or none after it."""
        return DONE if "total" in earlier else self.stage


@dataclass(frozen=True, eq=False)
class TotalPart(PlanComponent):
    """The total of each cell, within an ε."""

    facts: PublicMetadata
    requested_epsilon: Fraction
    edition: str | None = None
    kind: ClassVar[str] = "totals"
    saved_as: ClassVar[str] = "TotalPart"
    statistics: ClassVar[tuple[str, ...]] = ("total",)
    smoothing_trouble: ClassVar[str] = "totals are not smoothed."
    delta: ClassVar[Fraction] = Fraction(0)

    @property
    def occupancy(self):
        """Public counts."""
        return self.facts.occupancy

    @property
    def scale(self):
        """Noise that costs the most exposed user ε."""
        most = int(self.occupancy.records_per_user.max()) * self.facts.lattice.span_quanta
        return most / float(self.requested_epsilon) * (1 + 1e-9)

    @property
    def expected_error(self):
        """Average |noise|, in value units."""
        return self.scale * float(self.facts.lattice.quantum)

    @property
    def relative_error(self):
        """The same as a part of the span and of the records of a cell."""
        return float(np.mean(self.scale / self.occupancy.records_per_cell))

    @property
    def summary(self):
        """The plan in a line."""
        return f"total, epsilon={float(self.requested_epsilon)}"

    def goal(self):
        """Return the request as text."""
        return {"statistics": "total", "epsilon": str(self.requested_epsilon)}

    def fixed(self):
        """Return what the records give."""
        return {("facts",): self.facts}

    def stages(self):
        """Return the stages of a release."""
        return TotalStages(self.facts, self.scale)

    to_json = PlanComponent.column_json


def publish_totals(component, facts, _stages, outputs, *_):
    """Return the table, and what the manifest states."""
    quantum, lower = (float(one) for one in (facts.lattice.quantum, facts.lattice.lower))
    totals = outputs["total"].ravel() * quantum + lower * facts.occupancy.records_per_cell
    bound = float(np.log(20)) * component.scale * quantum
    columns = name_counted_cells(facts, facts.occupancy) | {
        "total_estimate": totals, "total_low": totals - bound, "total_high": totals + bound,
        "total_quality": ["caution"] * totals.size,
    }  # fmt: skip
    table = described_table(columns, lambda name: (f"the {name}", ""), facts.value)
    entry = {
        "plan": {"statistics": ["total"], "bound": bound},
        "losses": loss_section(component),
        "cells": [{"cell": name} for name in facts.cells.names()],
        "occupancy": occupancy_of(component),
    }
    return table, entry, None


COLUMNS = (
    "users", "records", "total_estimate", "total_low", "total_high", "total_quality",
)  # fmt: skip
SCHEMA = {
    "properties": {
        "plan": {"type": "object", "required": ["statistics", "bound"]},
        "losses": {"type": "object", "required": ["units", "max", "mean", "at_zero"]},
        "cells": {"type": "array", "items": {"type": "object", "required": ["cell"]}},
        "occupancy": {"type": "object"},
    },
    "required": ["plan", "losses", "cells", "occupancy"],
}


def recompute_totals(table, stated):
    """Yield if an interval is not that of the bound."""
    width = table["total_high"].to_numpy() - table["total_low"].to_numpy()
    if not np.allclose(width, 2 * stated["plan"]["bound"]):
        yield "the interval of a total is not that of its bound."


TOTALS = part_kinds.ComponentKind(
    "values",
    publish_totals,
    lambda _: COLUMNS,
    lambda _: value_manifest.types_of(COLUMNS),
    moment_checks.check_counted_cells,
    recompute_totals,
    schema=SCHEMA,
)


@pytest.fixture
def totals(monkeypatch):
    """Register the kind of part: how it is saved, and how it is published."""
    monkeypatch.setitem(part_kinds.KINDS, TotalPart.kind, TOTALS)
    monkeypatch.setitem(saved_plans.KINDS, TotalPart.saved_as, TotalPart)
    monkeypatch.setitem(codec.NAMES, TotalPart.saved_as, TotalPart)
    dataset = dataset_of([[2, 1], [1, 3], [1, 1]], 30)
    return dataset, hv.Plan.of(TotalPart(dataset.public, Fraction(3)))


def test_a_statistic_of_a_file_is_planned_and_saved(totals, tmp_path):
    """A plan has its figures, its goal and its folder."""
    dataset, plan = totals
    assert plan.statistics == ("total",)
    assert 2.99 < plan.epsilon <= 3
    assert "total" in repr(plan)
    loaded = hv.Plan.load(plan.save(tmp_path / "plan"), dataset)
    assert np.array_equal(loaded.losses(), plan.losses())
    kept = saved_plans.decode(saved_plans.encode(plan), plan)
    assert saved_plans.encode(kept) == saved_plans.encode(plan)


def test_a_statistic_of_a_file_is_released_once(totals, tmp_path):
    """Its losses are booked and metered, its numbers stored and replayed."""
    dataset, plan = totals
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="city", budget=5)
    made = hv.release(dataset, plan, ledger=book)
    assert np.isfinite(made["total"]).all()
    assert made.manifest["guarantee"]["epsilon_requested"] == "3"
    again = hv.release(dataset, plan, ledger=book)
    assert again.replayed
    assert again.table.equals(made.table)
    with pytest.raises(hv.BudgetError):
        hv.release(dataset, plan.changed(requested_epsilon=Fraction(4)), ledger=book)
    with pytest.raises(InputError, match="totals are not smoothed"):
        hv.release(dataset, plan, ledger=book, estimates=("raw", "smoothed"))


def test_the_folder_of_a_statistic_of_a_file_is_checked_and_read(totals, tmp_path):
    """It has a schema, a page and README.txt; what is recomputed of it is found when changed."""
    dataset, plan = totals
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="city", budget=5)
    made = hv.release(dataset, plan, ledger=book)
    folder = made.write(tmp_path / "map")
    assert find_problems(folder) == ()
    assert hv.load(folder).table.equals(made.table)
    assert "Total" in (folder / "report.html").read_text("utf-8")
    assert "total_high: the total_high" in (folder / "README.txt").read_text("utf-8")
    for number, (change, words) in enumerate(
        (
            (lambda own: own["plan"].update(bound=1.0), "not that of its bound"),
            (lambda own: own.pop("occupancy"), "breaks its schema at components/0"),
            (lambda own: own["cells"].reverse(), "does not have the cells"),
        )
    ):
        found = problems_after(
            partial(forge_manifest, change=change), folder, tmp_path / f"{number}"
        )
        assert words in " ".join(found)


# ---- no kind is asked for ----

KINDS = r"(Plan|MomentComponent|DistributionComponent|PresenceComponent)\b"
ASKED = re.compile(
    rf"isinstance\([^()]*[ (]{KINDS}|^\s*case [^:]*\b{KINDS}\(|hasattr\(plan", re.MULTILINE
)


def test_no_code_asks_of_which_kind_a_plan_is():
    """Neither `isinstance` nor `match`: only whether an argument is a plan at all."""
    doors = {"publishing/release_checks.py", "planning/comparison.py"}
    found = {
        path.relative_to(SOURCE).as_posix(): [hit[0] for hit in ASKED.finditer(text)]
        for path in sorted(SOURCE.rglob("*.py"))
        if ASKED.search(text := path.read_text("utf-8"))
    }
    assert set(found) == doors
    assert [hits for hits in found.values() if len(hits) > 1 or "Plan" not in hits[0]] == []
