"""Folder of a saved plan of distributions, for review before it is released.

plan.json has the request, the predicted errors, the loss, and the decisions: how the distribution
is measured, shares of ε, prices of cells. The plans of means and variances (`moments`) and of mean
scores (`scores`) are folders of their own in it (`hexveil.planning.serialization.plan_folder`). The
records are not in it: it is loaded with the data set that was planned, by the fingerprint of its
counts, its bounds, its bins and the names of its cells.

Digests find edits; they are no signatures. `load` checks decisions as if a stranger had written
them and computes losses anew from them, so that no edit makes a release cheaper than it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms.distribution.bin_noise import PARTS
from hexveil.model.statistic_terms import Estimator, Share, parse_statistics
from hexveil.planning.approximate.delta_request import check_population
from hexveil.planning.distribution.cell_prices import PricedCells
from hexveil.planning.distribution.distribution_components import (
    SCORE_LATTICE,
    BinPlan,
    DistributionComponent,
    IndicatorPlan,
    RankPlan,
    score_metadata,
)
from hexveil.planning.plan import Plan
from hexveil.planning.request import PURE
from hexveil.planning.serialization import plan_folder
from hexveil.planning.serialization.words import Words, one_of, optional, positive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from fractions import Fraction

    from hexveil.model.public_metadata import PublicMetadata, ValueLattice
    from hexveil.model.statistic_terms import Term

KIND = plan_folder.DISTRIBUTION
MOMENTS, SCORES = "moments", "scores"
LARGEST_FLOOR = 2**62
GOES_WITH = (
    "This plan is for the records of this occupancy alone, read with these statistics. For other "
    "records, such as tomorrow's, keep the goal in a run file (TOML) and plan those records."
)


class SavablePlan(Protocol):
    """Attributes of a `DistributionPlan` that a folder holds."""

    @property
    def facts(self) -> PublicMetadata:
        """Public metadata of its records."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Texts of all statistics."""

    @property
    def requested_epsilon(self) -> Fraction:
        """ε that was asked for."""

    @property
    def epsilon(self) -> Fraction:
        """Loss of the most exposed unit, at `delta` if that is above 0."""

    @property
    def delta(self) -> Fraction:
        """δ of the promise; 0 of a pure one."""

    @property
    def weights(self) -> Mapping[str, Fraction]:
        """Importance of each kind of statistics."""

    @property
    def requested_estimator(self) -> Estimator:
        """How the distribution was to be measured."""

    @property
    def edition(self) -> str | None:
        """Edition of the request."""

    @property
    def moment_plan(self) -> Plan | None:
        """Plan of means and variances."""

    @property
    def score_plan(self) -> Plan | None:
        """Plan of mean scores."""

    @property
    def component(self) -> DistributionComponent:
        """How the distribution is measured."""

    def to_json(self) -> dict[str, Any]:
        """Return its figures."""


LoadedT = TypeVar("LoadedT", bound=SavablePlan)


def save(plan: SavablePlan, folder: str | Path) -> Path:
    """Write a plan into a new folder and return its path: see `DistributionPlan.save`."""
    path = Path(folder)
    plan_folder.check_new(path)
    component_plans = {MOMENTS: plan.moment_plan, SCORES: plan.score_plan}
    try:
        with atomic_files.folder(path) as temporary:
            digests = {
                name: plan_folder.stated_digest(component_plan.save(temporary / name))
                for name, component_plan in component_plans.items()
                if component_plan is not None
            }
            words = _words(plan) | {"parts": digests}
            words["digest"] = digest(words)
            text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            (temporary / plan_folder.WORDS).write_text(text, "utf-8")
    except OSError as error:
        raise StorageError(
            f"the plan could not be saved to {path} ({atomic_files.reason(error)}); nothing was "
            "left there."
        ) from None
    return path


def load(folder: str | Path, facts: PublicMetadata, plan_type: Callable[..., LoadedT]) -> LoadedT:
    """Return the plan that a folder holds, for the records of its plan.

    Parameters
    ----------
    folder : str or Path
    facts : PublicMetadata
        Of the records that were planned.
    plan_type : callable
        Builds the plan of its fields.
    """
    path = Path(folder)
    words = plan_folder.read_words(path)
    if plan_folder.has_several(words):
        raise InputError(
            f"the plan in {path} is of several value columns; load it with "
            "hv.ColumnPlans.load(folder, dataset), for records read with these columns."
        )
    if words.get("kind") != KIND:
        raise InputError(
            f"the plan in {path} has means and variances alone; load it with hv.Plan.load."
        )
    if words.pop("digest", None) != digest(words):
        raise InputError(
            f"the plan in {path} was edited after it was saved: its contents do not have the "
            f"digest that {plan_folder.WORDS} states; plan and save again."
        )
    # A stranger's ε can be beyond all doubles: its loss is infinite, and refused.
    with understood(path), np.errstate(over="ignore"):
        _check_records(words["records"], facts)
        plan = plan_type(**_fields(path, words, facts))
        if not plan_folder.is_stated(words["plan"]["epsilon"], plan.epsilon):
            raise InputError("it states a loss that its decisions do not have.")
        if plan.epsilon > plan.requested_epsilon:
            raise InputError("its loss is above the epsilon that it was asked for.")
    return plan


def digest(words: Words) -> str:
    """Return the SHA-256 of the contents of plan.json, without its digest."""
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


def _words(plan: SavablePlan) -> Words:
    """Return the contents of plan.json, without digests."""
    return {
        "format": plan_folder.FORMAT,
        "kind": KIND,
        "hexveil": importlib.metadata.version("hexveil"),
        "goes_with": GOES_WITH,
        "request": {
            "statistics": list(plan.statistics),
            "epsilon": decimal_text(plan.requested_epsilon),
            **({"delta": decimal_text(plan.delta)} if plan.delta else {}),
            "weights": {
                name: decimal_text(weight) for name, weight in sorted(plan.weights.items())
            },
            "estimator": plan.requested_estimator,
            "edition": plan.edition,
        },
        "plan": {"epsilon": decimal_text(plan.epsilon), "figures": plan.to_json()},
        "component": _component_words(plan.component),
        "records": _record_words(plan.facts),
    }


def _record_words(facts: PublicMetadata) -> Words:
    """Return the identity of the records of a plan."""
    names = json.dumps(list(facts.cells.names())).encode()
    return {
        "fingerprint": facts.occupancy.fingerprint,
        "bounds": [decimal_text(facts.lattice.lower), decimal_text(facts.lattice.upper)],
        "quantum": decimal_text(facts.lattice.quantum),
        "privacy_unit": facts.privacy_unit,
        "cells": hashlib.sha256(names).hexdigest(),
        "bins": None if facts.bins is None else facts.bins.identity(),
    }


_DIFFERENCES = {
    "fingerprint": "who reported how often where",
    "bounds": "the bounds that they were read with",
    "quantum": "the quantum that they were read with",
    "privacy_unit": "the privacy unit",
    "cells": "the names of the cells",
    "bins": "the bins that they were counted by; read them with the plan's statistics",
}
"""What can differ, the most general first: a message names the cause, not its consequences."""


def _check_records(words: Words, facts: PublicMetadata) -> None:
    expected = _record_words(facts)
    for name, fact in _DIFFERENCES.items():
        if words[name] != expected[name]:
            raise InputError(f"it was made for other records, which differ in {fact}.")


def _component_words(component: DistributionComponent) -> Words:
    match component:
        case IndicatorPlan(share=share):
            return {"measured_by": "indicator", "share": share.text}
        case RankPlan(shape_epsilon=shape_epsilon):
            return {"measured_by": "ranks", "shape_epsilon": str(shape_epsilon)}
        case BinPlan(priced, shape_epsilon, bin_epsilon):
            return {
                "measured_by": "bins",
                "shape_epsilon": str(shape_epsilon),
                "bin_epsilon": str(bin_epsilon),
                "predicted_error": priced.error,
                "floor": priced.floor,
                "prices": priced.prices.tolist(),
            }


# ---- reading ----


@contextlib.contextmanager
def understood(path: Path) -> Iterator[None]:
    """Turn errors that a stranger's text can cause into one sentence."""
    try:
        yield
    except InputError as error:
        raise InputError(f"the plan in {path} cannot be used: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise InputError(
            f"{path / plan_folder.WORDS} lacks a field of a saved plan, or has one of another "
            "kind; plan and save again."
        ) from None


def _fields(path: Path, words: Words, facts: PublicMetadata) -> dict[str, Any]:
    """Return the checked fields of a plan by name."""
    request = words["request"]
    delta = optional(positive, request.get("delta")) or PURE
    if delta:
        check_population(facts.occupancy, delta)
    moments, terms = parse_statistics(tuple(request["statistics"]))
    for term in terms:
        if isinstance(term, Share):
            term.edge(facts.lattice)
    if not terms:
        raise InputError("it has no quantile, share or histogram.")
    moment_plan = _part(path, words, MOMENTS, facts, facts.lattice) if moments else None
    if moment_plan is not None and moment_plan.statistics != moments:
        raise InputError("its means and variances are not those that were asked for.")
    return {
        "facts": facts,
        "moments": moments,
        "terms": terms,
        "requested_epsilon": positive(request["epsilon"]),
        "moment_plan": moment_plan,
        "component": _component(path, words, facts, terms),
        "weights": {str(name): positive(weight) for name, weight in request["weights"].items()},
        "edition": optional(str, request["edition"]),
        "requested_estimator": one_of(request["estimator"], get_args(Estimator)),
        "delta": delta,
    }


def _part(
    path: Path, words: Words, name: str, facts: PublicMetadata, lattice: ValueLattice
) -> Plan:
    """Return the plan of means, variances or mean scores, of the records at hand."""
    if plan_folder.stated_digest(path / name) != words["parts"][name]:
        raise InputError(f"its part {name} is another one than was saved.")
    plan = Plan.load(path / name, facts.occupancy)
    if plan.facts is None or plan.facts.lattice != lattice:
        raise InputError(f"its part {name} has other bounds.")
    if plan.occupancy.fingerprint != facts.occupancy.fingerprint:
        raise InputError(f"its part {name} was made for other records.")
    return plan


def _component(
    path: Path, words: Words, facts: PublicMetadata, terms: tuple[Term, ...]
) -> DistributionComponent:
    """Return how the distribution is measured."""
    stated = words["component"]
    kind = one_of(stated["measured_by"], ("indicator", "ranks", "bins"))
    if kind == "bins":
        return BinPlan(
            _prices(stated, facts),
            _share_of_epsilon(stated["shape_epsilon"], words),
            _share_of_epsilon(stated["bin_epsilon"], words),
        )
    scores = _part(path, words, SCORES, score_metadata(facts), SCORE_LATTICE)
    if scores.statistics != ("mean",):
        raise InputError("its part scores is no plan of means.")
    if kind == "ranks":
        return RankPlan(scores, _share_of_epsilon(stated["shape_epsilon"], words))
    if len(terms) != 1 or not isinstance(terms[0], Share) or terms[0].text != stated["share"]:
        raise InputError("an indicator measures a single share, the one that was asked for.")
    return IndicatorPlan(scores, terms[0])


def _share_of_epsilon(text: str, words: Words) -> Fraction:
    """Return a part of ε that is no larger than the whole."""
    number = positive(text)
    if number > positive(words["request"]["epsilon"]):
        raise InputError("a part of its epsilon is above the whole.")
    return number


def _prices(stated: Words, facts: PublicMetadata) -> PricedCells:
    """Return checked prices of cells: whole numbers from 1 to 2^20."""
    prices, floor, error = stated["prices"], stated["floor"], float(stated["predicted_error"])
    is_whole = all(type(price) is int and 1 <= price <= PARTS for price in prices)
    if len(prices) != facts.occupancy.n_cells or not is_whole:
        raise InputError("its prices are not one whole number from 1 to 2^20 per cell.")
    if type(floor) is not int or not 0 <= floor <= LARGEST_FLOOR or not 0 <= error < np.inf:
        raise InputError("its floor or its predicted error is none that a plan has.")
    return PricedCells(np.array(prices, dtype=np.int64), floor, error)
