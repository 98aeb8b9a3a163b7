"""Publish averages of vehicle sensor readings per hexagon and hour, with a proof of privacy.

A first tour::

    import hexveil as hv

    ds = hv.read("records.parquet", user="bus", value="speed", bounds=(0, 65),
                 lat="lat", lon="lon", time="time",
                 cells=hv.Cells(resolution=5, timeslot="1h", timezone="Asia/Kolkata"))
    plan = hv.plan(ds, epsilon=3)                       # public facts only, costs nothing
    book = hv.Ledger("ledger.sqlite", dataset="surat", budget=5)
    hv.release(ds, plan, ledger=book).write("map")      # booked, noised, written

Records: `example`, `read`, `from_sums`, `combine_columns`, `Cells`, `Labels`, `OneCell`, `Select`,
`RecordFormat`, `Dataset`; with private presence also `declare`, `FleetDeclaration`.
Plans: `plan`, `compare`, `capacity`, `Plan`, `Capacity`, `Occupancy`.
Publishing: `Ledger`, `release`, `publish`, `Release`, `Catalogue`; for those who receive a folder:
`load`, `verify`, `compare_releases`, `roll_up`.
Mechanisms of one cell: `mechanisms`; comparing them on known values: `evaluation`.
Formulas: `theory`.
Errors: `HexveilError` and its kinds; `GridTooFineWarning`.

Names load when they are first used, so that the theory imports without an engine.
"""

import importlib
from typing import TYPE_CHECKING

from hexveil.base.optional_packages import extras_named

if TYPE_CHECKING:
    from hexveil import evaluation, mechanisms, theory
    from hexveil.base.errors import (
        BudgetError,
        ColumnError,
        HexveilError,
        InputError,
        StorageError,
    )
    from hexveil.cli.commands.publish_command import publish_run as publish
    from hexveil.ledger import Ledger
    from hexveil.model.cells import Cells, Labels, OneCell
    from hexveil.model.occupancy import LocalOccupancy as Occupancy
    from hexveil.planning.api import plan
    from hexveil.planning.comparison import compare
    from hexveil.planning.feasibility.capacity import Capacity, capacity
    from hexveil.planning.feasibility.recommendation import GridTooFineWarning
    from hexveil.planning.plan import Plan
    from hexveil.planning.presence.presence_request import FleetDeclaration
    from hexveil.publishing.catalogue.holder_statements import Catalogue
    from hexveil.publishing.derived.release_comparison import compare_releases
    from hexveil.publishing.derived.roll_up import roll_up
    from hexveil.publishing.pipeline import release
    from hexveil.publishing.published_numbers import Release
    from hexveil.publishing.verification.verify import load, verify
    from hexveil.records.column_datasets import combine_columns
    from hexveil.records.dataset import Dataset
    from hexveil.records.from_sums import from_sums
    from hexveil.records.read import declare, read
    from hexveil.records.select import Select
    from hexveil.records.sources.record_format import RecordFormat
    from hexveil.simulation.city import example

__version__ = "0.2.0"

_HOMES = {
    "evaluation": "hexveil.evaluation",
    "mechanisms": "hexveil.mechanisms",
    "theory": "hexveil.theory",
    "publish": "hexveil.cli.commands.publish_command:publish_run",
    "Cells": "hexveil.model.cells",
    "Labels": "hexveil.model.cells",
    "OneCell": "hexveil.model.cells",
    "BudgetError": "hexveil.base.errors",
    "ColumnError": "hexveil.base.errors",
    "HexveilError": "hexveil.base.errors",
    "InputError": "hexveil.base.errors",
    "StorageError": "hexveil.base.errors",
    "Ledger": "hexveil.ledger",
    "Occupancy": "hexveil.model.occupancy:LocalOccupancy",
    "Capacity": "hexveil.planning.feasibility.capacity",
    "GridTooFineWarning": "hexveil.planning.feasibility.recommendation",
    "Plan": "hexveil.planning.plan",
    "capacity": "hexveil.planning.feasibility.capacity",
    "compare": "hexveil.planning.comparison",
    "plan": "hexveil.planning.api",
    "compare_releases": "hexveil.publishing.derived.release_comparison",
    "roll_up": "hexveil.publishing.derived.roll_up",
    "Catalogue": "hexveil.publishing.catalogue.holder_statements",
    "Release": "hexveil.publishing",
    "release": "hexveil.publishing",
    "load": "hexveil.publishing.verification.verify",
    "verify": "hexveil.publishing.verification.verify",
    "Dataset": "hexveil.records",
    "RecordFormat": "hexveil.records",
    "Select": "hexveil.records",
    "combine_columns": "hexveil.records.column_datasets",
    "from_sums": "hexveil.records",
    "declare": "hexveil.records.read",
    "read": "hexveil.records",
    "FleetDeclaration": "hexveil.planning.presence.presence_request",
    "example": "hexveil.simulation.city",
}

__all__ = [
    "BudgetError",
    "Capacity",
    "Catalogue",
    "Cells",
    "ColumnError",
    "Dataset",
    "FleetDeclaration",
    "GridTooFineWarning",
    "HexveilError",
    "InputError",
    "Labels",
    "Ledger",
    "Occupancy",
    "OneCell",
    "Plan",
    "RecordFormat",
    "Release",
    "Select",
    "StorageError",
    "__version__",
    "capacity",
    "combine_columns",
    "compare",
    "compare_releases",
    "declare",
    "evaluation",
    "example",
    "from_sums",
    "load",
    "mechanisms",
    "plan",
    "publish",
    "read",
    "release",
    "roll_up",
    "theory",
    "verify",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hexveil' has no attribute {name!r}")
    home, _, own_name = _HOMES[name].partition(":")
    with extras_named():
        module = importlib.import_module(home)
        value = module if home == f"hexveil.{name}" else getattr(module, own_name or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
