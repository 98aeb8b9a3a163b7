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

from typing import TYPE_CHECKING

from hexveil.base.optional_packages import load_on_use

if TYPE_CHECKING:
    from hexveil import evaluation as evaluation
    from hexveil import mechanisms as mechanisms
    from hexveil import theory as theory
    from hexveil.base.errors import BudgetError as BudgetError
    from hexveil.base.errors import ColumnError as ColumnError
    from hexveil.base.errors import HexveilError as HexveilError
    from hexveil.base.errors import InputError as InputError
    from hexveil.base.errors import StorageError as StorageError
    from hexveil.cli.commands.publish_command import publish_run
    from hexveil.ledger import Ledger as Ledger
    from hexveil.model.cells import Cells as Cells
    from hexveil.model.cells import Labels as Labels
    from hexveil.model.cells import OneCell as OneCell
    from hexveil.model.occupancy import LocalOccupancy
    from hexveil.planning.api import plan as plan
    from hexveil.planning.comparison import compare as compare
    from hexveil.planning.feasibility.capacity import Capacity as Capacity
    from hexveil.planning.feasibility.capacity import capacity as capacity
    from hexveil.planning.feasibility.recommendation import GridTooFineWarning as GridTooFineWarning
    from hexveil.planning.plan import Plan as Plan
    from hexveil.planning.presence.presence_request import FleetDeclaration as FleetDeclaration
    from hexveil.publishing.catalogue.holder_statements import Catalogue as Catalogue
    from hexveil.publishing.derived.release_comparison import compare_releases as compare_releases
    from hexveil.publishing.derived.roll_up import roll_up as roll_up
    from hexveil.publishing.pipeline import release as release
    from hexveil.publishing.published_numbers import Release as Release
    from hexveil.publishing.verification.verify import load as load
    from hexveil.publishing.verification.verify import verify as verify
    from hexveil.records.column_datasets import combine_columns as combine_columns
    from hexveil.records.dataset import Dataset as Dataset
    from hexveil.records.from_sums import from_sums as from_sums
    from hexveil.records.read import declare as declare
    from hexveil.records.read import read as read
    from hexveil.records.select import Select as Select
    from hexveil.records.sources.record_format import RecordFormat as RecordFormat
    from hexveil.simulation.city import example as example

    Occupancy = LocalOccupancy
    publish = publish_run

__version__ = "0.2.0"

_HOMES = {
    "BudgetError": "base.errors",
    "Capacity": "planning.feasibility.capacity",
    "Catalogue": "publishing.catalogue.holder_statements",
    "Cells": "model.cells",
    "ColumnError": "base.errors",
    "Dataset": "records.dataset",
    "FleetDeclaration": "planning.presence.presence_request",
    "GridTooFineWarning": "planning.feasibility.recommendation",
    "HexveilError": "base.errors",
    "InputError": "base.errors",
    "Labels": "model.cells",
    "Ledger": "ledger",
    "Occupancy": "model.occupancy:LocalOccupancy",
    "OneCell": "model.cells",
    "Plan": "planning.plan",
    "RecordFormat": "records.sources.record_format",
    "Release": "publishing.published_numbers",
    "Select": "records.select",
    "StorageError": "base.errors",
    "capacity": "planning.feasibility.capacity",
    "combine_columns": "records.column_datasets",
    "compare": "planning.comparison",
    "compare_releases": "publishing.derived.release_comparison",
    "declare": "records.read",
    "evaluation": "evaluation",
    "example": "simulation.city",
    "from_sums": "records.from_sums",
    "load": "publishing.verification.verify",
    "mechanisms": "mechanisms",
    "plan": "planning.api",
    "publish": "cli.commands.publish_command:publish_run",
    "read": "records.read",
    "release": "publishing.pipeline",
    "roll_up": "publishing.derived.roll_up",
    "theory": "theory",
    "verify": "publishing.verification.verify",
}

__all__ = list(_HOMES)
__all__ += ["__version__"]

__getattr__ = load_on_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
