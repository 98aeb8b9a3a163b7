"""Folder of a saved plan of several value columns, for review before it is released.

plan.json has the request and the loss over all columns. The plan of each column is a folder of its
own in it, of means and variances (`hexveil.planning.serialization.plan_folder`) or of distributions
(`hexveil.planning.distribution.distribution_folder`). It is loaded with the data sets that were
planned: which units of one column are those of another is no part of the folder.

Digests find edits; they are no signatures. Each part is checked as if a stranger had written it,
and losses over all columns are computed anew from the parts, so that no edit makes a release
cheaper than it is.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.planning.distribution.distribution_folder import digest, understood
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.plan import Plan
from hexveil.planning.serialization import plan_folder
from hexveil.planning.serialization.words import Words, optional, positive

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from hexveil.model.column_facts import ColumnFacts
    from hexveil.model.public_metadata import PublicMetadata

KIND = plan_folder.COLUMNS_KIND
GOES_WITH = (
    "This plan is for the records of these occupancies alone, read with the same value columns. "
    "For other records, such as tomorrow's, keep the goal in a run file (TOML) and plan those "
    "records."
)


def save(
    folder: str | Path,
    parts: Mapping[str, Plan | DistributionPlan],
    request: Words,
    figures: Words,
) -> Path:
    """Write the plans of all columns into a new folder and return its path.

    Parameters
    ----------
    folder : str or Path
    parts : mapping of str to Plan or DistributionPlan
    request : dict
        "epsilon", "weights" and "edition" as text; without ε and weights where targets decide.
    figures : dict
        "epsilon" as exact text, and the figures that a reviewer reads.

    Raises
    ------
    InputError, StorageError
        See `ColumnPlans.save`.
    """
    path = Path(folder)
    plan_folder.check_new(path)
    try:
        with atomic_files.folder(path) as temporary:
            stated = []
            for number, (column, column_plan) in enumerate(parts.items(), start=1):
                plan_digest = plan_folder.stated_digest(
                    column_plan.save(temporary / part_name(number))
                )
                stated.append(
                    {"column": column, "folder": part_name(number), "digest": plan_digest}
                )
            words: Words = {
                "format": plan_folder.FORMAT,
                "kind": KIND,
                "hexveil": importlib.metadata.version("hexveil"),
                "goes_with": GOES_WITH,
                "request": request,
                "plan": figures,
                "columns": stated,
            }
            words["digest"] = digest(words)
            text = json.dumps(words, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            (temporary / plan_folder.WORDS).write_text(text, "utf-8")
    except OSError as error:
        raise StorageError(
            f"the plan could not be saved to {path} ({atomic_files.reason(error)}); nothing was "
            "left there."
        ) from None
    return path


def read(folder: str | Path, facts: ColumnFacts) -> tuple[dict[str, Any], str]:
    """Return the fields of the plan that a folder holds, and the loss that it states.

    Parameters
    ----------
    folder : str or Path
    facts : ColumnFacts
        Of the records that were planned.

    Raises
    ------
    InputError, StorageError
        See `ColumnPlans.load`.
    """
    path = Path(folder)
    words = plan_folder.read_words(path)
    if words.get("kind") != KIND:
        raise InputError(
            f"the plan in {path} is of one value column; load it with hv.Plan.load or "
            "hv.DistributionPlan.load, and release that column alone."
        )
    if words.pop("digest", None) != digest(words):
        raise InputError(
            f"the plan in {path} was edited after it was saved: its contents do not have the "
            f"digest that {plan_folder.WORDS} states; plan and save again."
        )
    with understood(path):
        # By number, not by the stated name: it could lead out of the folder.
        folders = {
            str(entry["column"]): (path / part_name(number), entry["digest"])
            for number, entry in enumerate(words["columns"], start=1)
        }
        if set(folders) != set(facts.columns) or len(folders) != len(words["columns"]):
            raise InputError("it was made for other value columns than were read.")
        plans = {
            column: _part(*folders[column], column_facts)
            for column, column_facts in facts.columns.items()
        }
        if len({plan.statistics for plan in plans.values()}) > 1:
            raise InputError("its columns have different statistics.")
        if len({plan.delta for plan in plans.values()}) > 1:
            raise InputError("its columns promise different deltas.")
        request = words["request"]
        requested = optional(positive, request["epsilon"])
        # A column asks for errors, or for its part of the whole: all alike.
        if any(_has_targets(plan) != (requested is None) for plan in plans.values()):
            raise InputError("its columns ask for errors and the whole for epsilon, or conversely.")
        fields = {
            "facts": facts,
            "plans": plans,
            "requested_epsilon": requested,
            "weights": {} if requested is None else _weights(request["weights"], facts),
            "edition": optional(str, request["edition"]),
        }
        return fields, str(words["plan"]["epsilon"])


def part_name(number: int) -> str:
    """Return the folder of a column's plan: by number, as a column may have any name."""
    return f"column_{number}"


def check_stated(path: Path, stated: str, epsilon: Fraction, requested: Fraction) -> None:
    """Refuse a loss over all columns other than the stated one, or above the requested one."""
    with understood(path):
        if not plan_folder.is_stated(stated, epsilon):
            raise InputError("it states a loss that the plans of its columns do not have.")
        if epsilon > requested:
            raise InputError("its loss is above the epsilon that it was asked for.")


def _part(path: Path, stated: str, facts: PublicMetadata) -> Plan | DistributionPlan:
    """Return the plan of a column, of the records at hand."""
    if plan_folder.stated_digest(path) != stated:
        raise InputError(f"its part {path.name} is another one than was saved.")
    if plan_folder.is_distribution(plan_folder.read_words(path)):
        return DistributionPlan.load(path, facts)
    plan = Plan.load(path, facts.occupancy)
    if plan.facts is None or plan.occupancy.fingerprint != facts.occupancy.fingerprint:
        raise InputError(f"its part {path.name} was made for other records.")
    return plan


def _has_targets(plan: Plan | DistributionPlan) -> bool:
    return isinstance(plan, Plan) and plan.request.target is not None


def _weights(words: Words, facts: ColumnFacts) -> dict[str, Fraction]:
    """Return the weight of each column."""
    return {column: positive(words[column]) for column in facts.columns}
