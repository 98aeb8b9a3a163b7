"""Identity of a request with private presence: declared facts alone, as text.

The identity of a request with public occupancy names the occupancy. Here nothing of the records may
enter, so a holder names them: another edition of the records is another `source`. Stages, shares of
ε and candidates are part of it: a version that plans otherwise must not finish what another began,
since their stages together could lose more than was booked.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.planning.presence.presence_request import PresenceRequest

if TYPE_CHECKING:
    from hexveil.planning.presence.presence_request import UnitCountRequest

MODEL = "presence"
PRIVACY_UNIT = "user; presence is private"
"""Unit that an account pins: releases of the other model are refused in it, and the reverse."""


def identify(request: PresenceRequest | UnitCountRequest, source: str) -> dict[str, str]:
    """Return the declared facts that make a request, in a fixed order.

    Raises
    ------
    InputError
        If the source has no name.
    """
    if not source.strip():
        raise InputError("name the records (source), such as 'taxis, 2026-11'.")
    fleet, table = request.fleet, request.grid.table
    names = json.dumps([repr(table.grid), *table.names()]).encode()
    facts = {
        "model": MODEL,
        "source": source,
        "cells": f"{request.grid.n_cells}",
        "grid": hashlib.sha256(names).hexdigest(),
        "in use": "declared" if request.grid.is_in_use else "tested",
        "fleet": f"{fleet.units} units, {fleet.records_per_unit} records and "
        f"{fleet.cells_per_unit} cells each",
        "epsilon": decimal_text(request.epsilon),
        # Of fractions and whole numbers: the same text on every processor.
        "plan": hashlib.sha256(repr(request.allocation()).encode()).hexdigest(),
    }
    if not isinstance(request, PresenceRequest):
        return facts | {"statistics": "users"}
    lattice = request.lattice
    return facts | {
        "statistics": "mean, weight",
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
