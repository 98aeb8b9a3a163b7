"""Command-line options for the fields of a run file, generated from the model of a run."""

from __future__ import annotations

import contextlib
import inspect
import typing
from typing import TYPE_CHECKING, Annotated, Any

import rich.markup
import typer

from hexveil.config import FIELDS, field_types, load
from hexveil.config.run_file import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.fields import FieldInfo

PANELS = {
    "": "Source",
    "columns": "Columns",
    "values": "Values",
    "cells": "Cells",
    "privacy": "Privacy model",
    "select": "Selection by public metadata",
    "read": "Reading",
    "format": "Format of the records",
    "plan": "Plan",
    "release": "Release",
    "publish": "Daily publication",
    "catalogue": "Facts for data portals",
    "ledger": "Ledger",
}

SHAPES = (
    (field_types.Paths, "PATH"),
    (field_types.Text, "TEXT"),
    (field_types.Version, "TEXT"),
    (field_types.MethodName, "TEXT"),
    (field_types.ObjectiveName, "TEXT"),
    (field_types.ClipUserName, "TEXT"),
    (field_types.UnfinishedStageName, "TEXT"),
    (field_types.ExemptName, "TEXT"),
    (field_types.ErrorMode, "TEXT"),
    (field_types.LatePolicy, "TEXT"),
    (field_types.SeriesKind, "TEXT"),
    (field_types.RangeMode, "TEXT"),
    (field_types.Exact, "NUMBER"),
    (field_types.Goals, "[NAME=]NUMBER"),
    (field_types.ColumnNames, "TEXT"),
    (field_types.ColumnBounds, "[COLUMN=]NUMBER,..."),
    (field_types.ColumnNumber, "[COLUMN=]NUMBER"),
    (field_types.ColumnInteger, "[COLUMN=]NUMBER"),
    (field_types.ColumnText, "[COLUMN=]TEXT"),
    (field_types.Weights, "NAME=NUMBER,..."),
    (field_types.EstimatorName, "TEXT"),
    (field_types.Integer, "NUMBER"),
    (field_types.Share, "NUMBER"),
    (field_types.Numbers, "NUMBER,..."),
    (field_types.Names, "TEXT,..."),
    (field_types.Words, "TEXT,..."),
    (field_types.Lists, "TEXT,...;..."),
    (field_types.ProtectName, "TEXT"),
)

REPEATED = (
    field_types.Goals,
    field_types.ColumnNames,
    field_types.ColumnBounds,
    field_types.ColumnNumber,
    field_types.ColumnInteger,
    field_types.ColumnText,
)

_LISTS = field_types.Lists | None
"""Fields that a run file writes as lists, and an option as one text."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
_Source = Annotated[
    str | None,
    typer.Argument(help="Run file (.toml), or the records: a file, folder or pattern."),
]


def run_command(
    body: Callable[..., int | None],
    *,
    leave_out: tuple[str, ...] = ("publish", "catalogue"),
    source: object = _Source,
) -> Callable[..., int | None]:
    """Return a command that takes SOURCE, an option per field, and the body's own options.

    The body is called with the checked run and its own options. The command's signature is what
    the parser reads. Sections to `leave_out` have no options: a body may use their names itself.
    A command whose argument is something else has an option as its `source`.
    """
    fields = {key: info for key, info in FIELDS.items() if key[0] not in leave_out}
    own_parameters = [p for p in _parameters(body) if p.name != "run"]

    def command(**options: Any) -> int | None:  # noqa: ANN401  options of every kind
        run_source = options.pop("source")
        option_values = {key: options.pop(_parameter_name(*key)) for key in fields}
        # Options that were not used are None, or an empty list if they may be repeated.
        overrides = {key: value for key, value in option_values.items() if value not in (None, [])}
        for key in [key for key in overrides if FIELDS[key].annotation == _LISTS]:
            overrides[key] = field_types.split_lists(overrides[key])
        run = load(run_source, overrides)
        # Paths of a run are relative to its file.
        with contextlib.chdir(run.folder):
            return body(run, **options)

    parameters = [_parameter("source", source, None), *own_parameters]
    for key, info in fields.items():
        parameters.append(_parameter(_parameter_name(*key), _option_type(*key, info), None))
    # The parser reads signature, name and documentation of a function, and calls it by keywords.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__name__ = body.__name__
    command.__doc__ = body.__doc__
    return command


def _parameters(body: Callable[..., int | None]) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(body, include_extras=True)
    return [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(body).parameters.values()
    ]


def _parameter_name(section: str, field: str) -> str:
    # Sections share field names, such as timezone, so a parameter carries its section.
    return f"{section or 'top'}_{field}"


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _option_type(section: str, field: str, info: FieldInfo) -> object:
    """Return the annotation of one option; a value is text, checked where the file's are."""
    name, panel, help_text = option(section, field), PANELS[section], _help(info)
    # None, not False, where a switch is not used: then the file decides.
    if info.annotation == (field_types.Switch | None):
        return Annotated[bool | None, typer.Option(name, help=help_text, rich_help_panel=panel)]
    shape = next(word for kind, word in SHAPES if info.annotation == (kind | None))
    about = typer.Option(name, help=help_text, rich_help_panel=panel, metavar=shape)
    # May be repeated, once for each statistic or value column.
    if info.annotation in [kind | None for kind in REPEATED]:
        return Annotated[list[str] | None, about]
    return Annotated[str | None, about]


def _help(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    default = extra.get("library") if isinstance(extra, dict) else None
    text = f"{info.description} [default: {default}]" if default else str(info.description)
    # Otherwise [longitude, latitude] would be read as markup, and vanish.
    return rich.markup.escape(text)
