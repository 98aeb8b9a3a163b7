"""How each kind of part is published: its table, its component of the manifest, and their checks.

The registry of kinds (planning/component.py): a new kind is a file, and a line here. Whatever
writes, checks, describes or compares a release asks this table, and never of which kind a
component is.
manifest.schema.json has a part for each kind of component.
"""

import copy
import importlib.resources
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from hexveil.base.work_share import ESTIMATES, RELEASING, share_of_work
from hexveil.mechanisms.contract import StagedPlan
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning.distribution_component import DistributionComponent
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.presence.presence_plan import PresenceComponent
from hexveil.publishing.components import split_table
from hexveil.publishing.estimates.decoded_moments import Estimates, decode_moments
from hexveil.publishing.estimates.table import ALL_COLUMNS
from hexveil.publishing.kinds import (
    distribution_checks,
    moment_checks,
    presence_checks,
    presence_table,
    value_manifest,
)
from hexveil.publishing.kinds.distribution_table import decode_release, released_columns
from hexveil.publishing.kinds.presence_manifest import presence_entry
from hexveil.publishing.kinds.value_manifest import distribution_entry, moment_entry
from hexveil.publishing.memory.history import History
from hexveil.publishing.memory.presence_history import remember_map
from hexveil.publishing.memory.stored_day import Rows
from hexveil.report.promise_wording import Protect

Json = dict[str, Any]
Published = tuple[pa.Table, Json, Rows | None]
Last = Any  # which estimates are asked for, and earlier releases


@dataclass(frozen=True)
class ComponentKind:
    """A kind of part and of component; what it states and checks is about one value column.

    Attributes
    ----------
    protect : "values" or "presence"
        The privacy model that it belongs to.
    publish : callable
        Returns the table of a part and its entry in the manifest, by its facts as read, its stages,
        their outputs, which estimates are asked for, and the earlier releases that one
        of a single value column remembers; and the rows of `memory.npy`, if it does. Public.
    taken : callable
        Returns the names of columns that no label may have, by a part.
    columns : callable
        Returns the names and types of its columns of the table, in order, by its statements.
    check_cells : callable
        Yields cells of the table that are not those of the statements.
    recompute : callable
        Yields numbers and losses that do not follow from each other.
    check_statements : callable
        Yields statements that no release of this kind has; run before any is used.
    schema : dict, optional
        `properties` of the component, and those that are `required`; by default those of
        manifest.schema.json.
    readme, dossier : str
        Templates of README.txt and dossier.
    """

    protect: Protect
    publish: Callable[[Any, Any, StagedPlan, Outputs, Estimates, History | None], Published]
    taken: Callable[[Any], Collection[str]]
    columns: Callable[[Json], dict[str, pa.DataType]]
    check_cells: Callable[[pa.Table, Json], Iterable[str]]
    recompute: Callable[[pa.Table, Json], Iterable[str]]
    check_statements: Callable[[Json], Iterable[str]] = lambda _: ()
    schema: Json | None = None
    readme: str = "distributions/readme.md"
    dossier: str = "moments/dossier.md"


@cache
def _file() -> Json:
    file = importlib.resources.files(__package__).joinpath("manifest.schema.json")
    content: Json = json.loads(file.read_text("utf-8"))
    return content


def component_schema(kind: str) -> Json:
    """Return the JSON Schema of a component: the common part with that of its kind."""
    definitions = _file()["$defs"]
    common, own = definitions["component"], KINDS[kind].schema or definitions[kind]
    properties = {**common["properties"], **own["properties"], "kind": {"const": kind}}
    required = [*common["required"], *own["required"]]
    schema: Json = common | own | {"properties": properties, "required": required}
    return schema


def _publish_moments(
    component: MomentComponent,
    facts: Any,  # noqa: ANN401
    stages: StagedPlan,
    outputs: Outputs,
    estimates: Estimates,
    history: History | None,
) -> Published:
    with share_of_work(RELEASING, 0.0, 0.8, ESTIMATES):
        moments = decode_moments(
            component, stages, outputs, facts, estimates=estimates, history=history
        )
    entry = moment_entry(facts, moments.plan, moments.smoothed, moments.accuracy)
    if moments.memory is None:
        return moments.table, entry, None
    return moments.table, entry | {"memory": moments.memory.statement}, moments.memory.rows


def _publish_distribution(
    component: DistributionComponent, _facts: object, _stages: object, outputs: Outputs, *last: Last
) -> Published:
    *_, history = last
    with share_of_work(RELEASING, 0.0, 0.8, ESTIMATES):
        decoded = decode_release(component, outputs, history)
    return decoded.table, distribution_entry(component, decoded), decoded.rows


def _publish_presence(
    component: PresenceComponent, _facts: object, _stages: object, outputs: Outputs, *last: Last
) -> Published:
    request, facts, (*_, history) = component.request, component.facts, last
    decoded = presence_table.decode_outputs(request, outputs)
    decoded, rows, memory = remember_map(component, outputs, decoded, history)
    decoded = presence_table.read_share(request, decoded)
    table = presence_table.released_table(request, decoded, facts.value, facts.value_unit)
    accuracy = presence_table.map_accuracy(decoded)
    return table, presence_entry(component, outputs, accuracy, memory), rows


KINDS: dict[str, ComponentKind] = {
    MomentComponent.kind: ComponentKind(
        "values",
        _publish_moments,
        lambda _: ALL_COLUMNS,
        value_manifest.typed_columns,
        moment_checks.check_counted_cells,
        moment_checks.check_moments,
        readme="moments/readme.md",
    ),
    DistributionComponent.kind: ComponentKind(
        "values",
        _publish_distribution,
        lambda part: ALL_COLUMNS.union(released_columns(part.terms)),
        distribution_checks.typed_columns,
        moment_checks.check_counted_cells,
        distribution_checks.check_distribution,
        distribution_checks.check_statements,
    ),
    PresenceComponent.kind: ComponentKind(
        "presence",
        _publish_presence,
        lambda part: presence_table.TAKEN.union(presence_table.columns_of(part.statistics)),
        presence_checks.typed_columns,
        presence_checks.check_declared_cells,
        presence_checks.check_presence,
        presence_checks.check_declared_statements,
        readme="presence/readme.md",
        dossier="presence/dossier.md",
    ),
}
"""By the kind of a part, and of a component."""


def manifest_schema() -> Json:
    """Return the JSON Schema of a manifest, for components of every kind that is registered."""
    return _schema_of(tuple(KINDS))


@cache
def _schema_of(kinds: tuple[str, ...]) -> Json:
    """Return the same for some kinds."""
    rules = copy.deepcopy(_file())
    components = rules["properties"]["components"]["items"]
    components["properties"] = {"kind": {"enum": [*kinds]}}
    # Not `oneOf`: an error then names the place inside the component.
    components["allOf"] = [
        {"if": {"properties": {"kind": {"const": name}}}, "then": component_schema(name)}
        for name in kinds
    ]
    return rules


def kind_of(statements: Mapping[str, Any]) -> ComponentKind:
    """Return the kind of the statements of a value column."""
    return KINDS[statements["kind"]]


def own_columns(statements: Mapping[str, Json]) -> dict[str, list[str]]:
    """Return the names of the columns of each value column, in order, without its prefix."""
    return {column: [*kind_of(own).columns(own)] for column, own in statements.items()}


def split_by_column(table: pa.Table, statements: Mapping[str, Json]) -> dict[str, pa.Table]:
    """Return the table of each value column of a released one.

    Raises
    ------
    KeyError
        If it has not the columns or cells that are stated.
    """
    cells = {
        column: [cell["cell"] for cell in own["cells"]]
        for column, own in statements.items()
        if "cells" in own
    }
    return split_table(table, own_columns(statements), cells)
