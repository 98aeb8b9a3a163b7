"""Identity of a request with private presence: declared facts alone, as text.

The identity of a request with public occupancy names the occupancy. Here nothing of the records may
enter, so a holder names them: another edition of the records is another `source`, or another
version. Stages and shares of ε are part of it, and `STAGES_VERSION` stands for the constants and
the arithmetic of the mechanism: a version that plans or measures otherwise must not finish what
another began, since their stages together could lose more than was booked. No name of a module is.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.planning.plan import Plan
    from hexveil.planning.presence.presence_request import PresenceRequest

MODEL = "presence"
STAGES_VERSION = "3"
"""To be raised when a constant or the arithmetic of a stage changes; a test compares constants."""


def identify(
    request: PresenceRequest,
    source: str,
    declared: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the declared facts that make a request, in a fixed order.

    Parameters
    ----------
    request : PresenceRequest
    source : str
        Public name of the records.
    declared : mapping of str to str, optional
        The declared reading, without the names of files.

    Raises
    ------
    InputError
        If the source has no name.
    """
    if not source.strip():
        raise InputError("name the records (source), such as 'taxis, 2026-11'.")
    fleet = request.fleet
    # Of fractions and whole numbers: the same text on every processor.
    plan = [STAGES_VERSION, repr(request.allocation())]
    facts = {
        "model": MODEL,
        "source": source,
        "cells": f"{request.grid.n_cells}",
        "grid": request.grid.fingerprint(),
        "in use": "declared" if request.grid.is_in_use else "tested",
        "fleet": f"{fleet.units} units, {fleet.records_per_unit} records and "
        f"{fleet.cells_per_unit} cells each",
        "epsilon": decimal_text(request.epsilon),
        **({"delta": decimal_text(request.delta)} if request.delta else {}),
        "plan": hashlib.sha256(json.dumps(plan).encode()).hexdigest(),
        # A moved or renamed file holds the same records.
        **{f"records.{k}": v for k, v in sorted((declared or {}).items()) if k != "source"},
    }
    if not request.has_map:
        return facts | {"statistics": "users"}
    lattice = request.lattice
    # Terms are texts without commas.
    return facts | {
        "statistics": ", ".join((*request.names, "weight")),
        "bounds": f"{decimal_text(lattice.lower)} to {decimal_text(lattice.upper)}",
        "quantum": decimal_text(lattice.quantum),
        "cap": repr(request.cap),
    }


def request_name(facts: dict[str, str]) -> str:
    """Return the name by which the ledger knows a request.

    Examples
    --------
    >>> request_name({"model": "presence"})[:12]
    'be97503eb69a'
    """
    return hashlib.sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()


def presence_request(dataset: str, plan: Plan) -> dict[str, str]:
    """Return the request in words: declared facts, so that equal requests replay."""
    requests = {
        name: _request_of_component(dataset, component)
        for name, component in plan.components.items()
    }
    if plan.is_single:
        return next(iter(requests.values()))
    return {
        "model": MODEL,
        "source": dataset,
        "epsilon": decimal_text(plan.epsilon),
        # In whichever order columns are named, the request is the same. Each has its part of ε.
        "columns": json.dumps(requests, sort_keys=True),
        "unit": plan.columns_facts.privacy_unit,
    }


def _request_of_component(dataset: str, component: Any) -> dict[str, str]:  # noqa: ANN401  see PresencePart
    """Return the request of one value column in words."""
    facts = component.facts
    identity = identify(component.request, dataset, facts.identity)
    edition = {} if component.edition is None else {"edition": component.edition}
    return identity | {"value": facts.value, "unit": facts.privacy_unit} | edition
