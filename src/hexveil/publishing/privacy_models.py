"""What a release books, for whom and under which name: of both privacy models.

Where occupancy is public the loss of each unit is booked, with the plan, which comes back when the
request is repeated. Under private presence the loss of any unit is booked, present or not: which
units there are is private, so none is named. Balance, facts, stages and their sizes are the same
whatever the records are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from hexveil.base.rational import round_up
from hexveil.ledger import hash_losses
from hexveil.planning.serialization import plan_codec
from hexveil.publishing.manifest import fingerprint, request_of
from hexveil.publishing.pinned_unit import ANY_UNIT, BalanceKey, balance_of, unit_of
from hexveil.publishing.presence.presence_manifest import presence_request, request_name

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.promise import Promise
    from hexveil.base.arrays import Floats
    from hexveil.ledger import Ledger
    from hexveil.ledger.unit_losses import Losses
    from hexveil.mechanisms.contract import StagedPlan
    from hexveil.model.declared_grid import DeclaredColumns, DeclaredFacts
    from hexveil.planning.plan import Plan
    from hexveil.records.column_datasets import ColumnDatasets, PrivateColumns, PrivateDataset
    from hexveil.records.dataset import Dataset

    ReleasableDataset: TypeAlias = Dataset | ColumnDatasets
    AnyDataset: TypeAlias = ReleasableDataset | PrivateDataset | PrivateColumns


@dataclass(frozen=True, eq=False)
class Charge:
    """What the ledger books for a release, and what its stages are metered by.

    Attributes
    ----------
    name : str
        Of the request.
    facts : dict of str to str
        The request in words.
    losses : Losses
        Of each unit, by its hash.
    metered : ndarray of float
        Losses that the stages may add up to, of each unit or of any.
    balance : BalanceKey
    plan : bytes
    delta : Fraction
    """

    name: str
    facts: dict[str, str]
    losses: Losses
    metered: Floats
    balance: BalanceKey
    plan: bytes
    delta: Fraction


def identify_request(
    dataset: AnyDataset | None, plan: Plan, account: str
) -> tuple[str, dict[str, str]]:
    """Return the name of a request, and the request in words; equal requests replay.

    Parameters
    ----------
    dataset : dataset or None
        Under private presence the plan has all facts.
    plan : plan
    account : str
        Name of the data set in the ledger.
    """
    if plan.is_declared:
        facts = presence_request(account, plan)
        return request_name(facts), facts
    facts = request_of(account, cast("ReleasableDataset", dataset).public, plan)
    return fingerprint(facts), facts


def charge_of(dataset: AnyDataset, plan: Plan, stages: StagedPlan, ledger: Ledger) -> Charge:
    """Return what is booked for a release of a plan."""
    name, facts = identify_request(dataset, plan, ledger.dataset)
    if plan.is_declared:
        declared = cast("DeclaredFacts | DeclaredColumns", dataset.public)
        return any_unit_charge(stages, plan.promise, facts, ledger, balance_of(declared))
    counted = cast("ReleasableDataset", dataset)
    units, public = counted.units, counted.public
    assert units is not None  # noqa: S101  see release_checks
    losses, periods = stages.losses(), units.periods()
    hashed = hash_losses(
        units.ids(), losses, ledger.key, max_loss=plan.booked_limit, periods=periods
    )
    dropped = public.identity.get("drop_values", "")
    balance = BalanceKey(unit_of(public), (), public.id_space, dropped)
    encoded = ledger.plan_of(name) or plan_codec.encode(plan)
    return Charge(name, facts, hashed, losses, balance, encoded, plan.delta)


def any_unit_charge(
    stages: StagedPlan,
    promise: Promise,
    facts: dict[str, str],
    ledger: Ledger,
    balance: BalanceKey | None = None,
) -> Charge:
    """Return what is booked for any unit, present or not.

    A unit of a day or a week is booked on each declared day or week: any unit of it may be there.
    """
    losses, balance = stages.losses(), balance or BalanceKey()
    times = len(balance.periods)
    hashed = hash_losses(
        [ANY_UNIT] * times, np.repeat(losses, times), ledger.key,
        max_loss=promise.amount, periods=balance.periods,
    )  # fmt: skip
    # What is metered is what was booked, not what the stages say of themselves.
    metered = np.minimum(losses, round_up(promise.amount))
    encoded = json.dumps(facts, sort_keys=True).encode()
    return Charge(request_name(facts), facts, hashed, metered, balance, encoded, promise.delta)
