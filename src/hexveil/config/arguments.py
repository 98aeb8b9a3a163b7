"""Keyword arguments of the library's functions from a run.

One message names all required arguments that the run lacks; omitted fields keep the defaults of the
function.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hexveil.base.errors import InputError
from hexveil.config.fields import OPTIONS, SECTIONS, option, section_of
from hexveil.config.run_file import Run, is_area_file
from hexveil.mechanisms import parse
from hexveil.model.areas import Area, area_of
from hexveil.model.cells import Cells, Labels, OneCell
from hexveil.model.statistic_terms import has_distribution
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.request import PRESENCE, SEVERAL
from hexveil.records.sources.record_format import RecordFormat

Arguments = dict[str, Any]

BEGIN = "; hexveil inspect FILE --init > run.toml drafts a run file that names them"
"""Advice for users who have records but no run file."""


def read_arguments(run: Run, function: Callable[..., object]) -> Arguments:
    """Return the keyword arguments of `read`, without its source."""
    from hexveil.records.select import Select  # noqa: PLC0415  the engine loads when records are read

    fields = {
        **run.columns.explicit_fields(),
        **run.values.explicit_fields(),
        **run.read.explicit_fields(),
    }
    complete(function, fields)
    if run.privacy.protect is not None:
        fields["protect"] = run.privacy.protect
    if is_presence_private(run):
        _refuse_limits(run)
    check_places(run)
    fields["cells"] = cells(run)
    if isinstance(fields["cells"], Labels) and run.cells.timezone is not None:
        fields.setdefault("timezone", run.cells.timezone)
    # Records are counted by bin for distributions, and under presence for any: each engine does so.
    statistics = run.plan.statistics or ()
    if statistics and (is_presence_private(run) or has_distribution(statistics)):
        fields["statistics"] = statistics
    # Sections of their own become arguments of their own.
    fields["select"] = Select(**run.select.explicit_fields())
    if run.format.explicit_fields():
        fields["format"] = record_format(run)
    return fields


def value_columns_of(run: Run) -> tuple[str, ...]:
    """Return the value columns of a run."""
    value = run.columns.value
    return (value,) if isinstance(value, str) else tuple(value or ())


def runs_of_columns(run: Run) -> list[Run]:
    """Return a run of each value column alone, with the facts stated of it."""
    stated = run.values.explicit_fields()
    by_column = {name: value for name, value in stated.items() if isinstance(value, dict)}
    errors, runs = run.plan.baseline_error, []
    for column in value_columns_of(run):
        statements = {name: value.get(column) for name, value in by_column.items()}
        alone = run.with_fields("columns", value=column).with_fields("values", **statements)
        # A column that is left out has the default.
        column_error = {"baseline_error": errors.get(column)} if isinstance(errors, dict) else {}
        runs.append(alone.with_fields("plan", **column_error))
    return runs or [run]


def value_unit_of(run: Run) -> str:
    """Return the unit of measure of a run with one value column; "" where none is stated."""
    stated = run.values.value_unit or ""
    return stated if isinstance(stated, str) else stated.get(str(run.columns.value), "")


def refuse_several(run: Run, where: str) -> None:
    """Refuse several value columns where one is taken."""
    columns = value_columns_of(run)
    if len(columns) > 1:
        raise InputError(
            f"{where} takes one value column; name it, as in --value {columns[0]} (inspect, plan, "
            "release and publish take several)."
        )


def source(run: Run) -> str | list[str]:
    """Return the configured source, one name or several."""
    if not run.source:
        raise InputError("source is needed: name the records or a run file.")
    return run.source[0] if len(run.source) == 1 else list(run.source)


def record_format(run: Run) -> RecordFormat:
    """Return the declared format of the records."""
    return RecordFormat(**run.format.explicit_fields())


def has_places(run: Run) -> bool:
    """Return whether a column of places is configured."""
    columns = run.columns
    return not (columns.lat is columns.lon is columns.location is None)


def check_places(run: Run) -> None:
    """Refuse records without places and without another definition of cells."""
    # A hexagon's missing time zone would be named first, which is no help without places.
    if not has_places(run) and not run.cells.explicit_fields():
        raise InputError(
            "cells need places: name lat and lon (in [columns], or --lat and --lon), or location; "
            "without places, name labels (in [cells], or --set cells.labels), or use one_cell "
            "(--set cells.one_cell=true) "
            "for one cell of all records."
        )


def cells(run: Run) -> Cells | Labels:
    """Return the definition of a cell; refuse labels, or one cell, with a place or slot."""
    fields = run.cells.explicit_fields()
    values = fields.pop("values", None)
    labels, one_cell = fields.pop("labels", None), fields.pop("one_cell", False)
    if labels is not None or one_cell:
        fields.pop("timezone", None)  # labels have no slots, but hours, dates and days do
        conflicting = [*(["labels"] if one_cell and labels is not None else []), *fields]
        if conflicting:
            raise InputError(
                f"{'one_cell' if one_cell else 'labels'} and {conflicting[0]} cannot be combined: "
                "use one of them to define cells."
            )
        return OneCell() if labels is None else Labels(*labels, values=values)
    if values is not None:
        raise InputError("values lists the values of labels: name labels too, or use area.")
    if fields.get("timeslot") == "none":
        fields["timeslot"] = None
    if "area" in fields:
        fields["area"] = declared_area(fields["area"])
    return Cells(**fields)


def declared_area(written: tuple[str, ...]) -> Area:
    """Return the area of a run: degrees or names as written, or the polygon of a GeoJSON file."""
    if not is_area_file(written):
        return area_of(written)
    file = Path(written[0])
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        raise InputError(f"area: {file.name!r} cannot be read as GeoJSON.") from None
    features = content.get("features") if isinstance(content, dict) else None
    if isinstance(features, list) and len(features) == 1:
        content = features[0]
    try:
        return area_of(content)
    except InputError:
        raise InputError(
            f"area: {file.name!r} must hold one polygon without holes, in longitude and latitude."
        ) from None


def is_presence_private(run: Run) -> bool:
    """Return whether the run protects presence."""
    return bool(run.privacy.protect == "presence")


_LIMITS = ("max_bad_rows", "max_repeats", "accept_single_records")


def _refuse_limits(run: Run) -> None:
    """Refuse limits on records that private presence does not have, also at their defaults."""
    settings = [f"{name} (in [read])" for name in _LIMITS if name in run.read.explicit_fields()]
    # A cell with one user at least is any cell with records.
    if run.select.explicit_fields().get("min_users", 1) != 1:
        settings.append("min_users (in [select])")
    if settings:
        raise InputError(
            f'{settings[0]} has no meaning with protect = "presence": neither a refusal nor a cell '
            "may depend on the records; leave it out."
        )


def refuse_declarations(run: Run) -> None:
    """Refuse declarations of private presence where the run does not protect it."""
    explicit = set(run.privacy.explicit_fields()) - {"protect", "quiet_records", "delta"}
    if explicit and not is_presence_private(run):
        raise InputError(
            f'{min(explicit)} (in [privacy]) belongs to protect = "presence"; set that too, or '
            "leave it out."
        )


def about(run: Run) -> list[str]:
    """Return the privacy model and the columns of a run, in words of the rules of options."""
    is_private, several = is_presence_private(run), len(value_columns_of(run)) > 1
    return [PRESENCE] * is_private + [SEVERAL] * several


def plan_arguments(run: Run, outputs: Sequence[str] = ()) -> Arguments:
    """Return the keyword arguments of `plan`, under either privacy model.

    What no plan can be made of is refused here, before records are read: that may take minutes.
    `outputs` are options of the command, such as "--compare", which not every plan has.
    """
    fields, declared = run.plan.explicit_fields(), run.privacy.explicit_fields()
    fields |= {"delta": declared["delta"]} if "delta" in declared else {}
    if "fleet" in declared:
        from hexveil.planning.presence.presence_request import FleetDeclaration  # noqa: PLC0415  where declared

        fleets, names = declared["fleet"], ("records_per_unit", "cells_per_unit")
        sizes = {name: declared[name] for name in names if name in declared}
        fields["fleet"] = (
            {column: FleetDeclaration(units, **sizes) for column, units in fleets.items()}
            if isinstance(fleets, dict)
            else FleetDeclaration(fleets, **sizes)
        )
    # Names in a file become objects of the library.
    if "mechanism" in fields:
        fields["mechanism"] = parse(fields["mechanism"])
    PlanArguments(**fields).check([*about(run), *outputs], _placed)
    return fields


def _placed(name: str) -> str:
    """Return an option of `plan` with its place in a run file."""
    section = "privacy" if name in SECTIONS["privacy"] else "plan"
    typed = f", or {option(section, name)}" if (section, name) in OPTIONS else ""
    return f"{name} (in [{section}]{typed})"


def ledger_arguments(run: Run, function: Callable[..., object]) -> Arguments:
    """Return the keyword arguments of `Ledger`."""
    # An account is opened for the promise of the run.
    promise = {k: v for k, v in run.privacy.explicit_fields().items() if k == "delta"}
    return complete(function, run.ledger.explicit_fields() | promise)


def complete(function: Callable[..., object], fields: Arguments) -> Arguments:
    """Return the arguments of a function, or raise InputError naming the missing ones."""
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    # Arguments without a field of the run are for the caller to give.
    places = {
        name: f"{name} (in [{section}], or {option(section, name)})"
        for name in needed
        if name not in fields and (section := section_of(name)) is not None
    }
    if places:
        verb = "is" if len(places) == 1 else "are"
        begin = BEGIN if {"user", "value"} <= places.keys() else ""
        raise InputError(f"{', '.join(places.values())} {verb} needed{begin}.")
    return fields
