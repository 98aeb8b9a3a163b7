"""Commands made of declared options, with options and --set for the fields of a run file.

A command's declaration is a data class: its fields are the options that the parser reads (their
texts are in options.toml), its documentation is the help. Its body is called with the checked run,
if it takes one, and with an object of this class. Neither help nor completion loads a body.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import tomllib
import typing
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from hexveil.base.errors import InputError
from hexveil.config.fields import FIELDS, OPTIONS, field_name, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Key = tuple[str, str]

FIELDS_PANEL = "Fields of the run file"


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Options of a command; every subclass is a frozen data class.

    Attributes
    ----------
    home : str
        Module of the body, which has the name of the command; "" for its file in `commands`.
    example : str
    as_json : bool
    """

    home: ClassVar[str] = ""
    example: ClassVar[str]

    as_json: bool = False

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class RunDeclaration(Declaration):
    """Options of a command that takes a run: beside its own, those of the run's fields.

    Attributes
    ----------
    source : object
        How the records are named: by default the argument.
    left_out : tuple of str
        Sections whose fields have no option here: the command uses their names itself.
    """

    source: ClassVar[object] = Annotated[
        str | None,
        typer.Argument(
            help="Run file (.toml), or the records: a file, folder or pattern.", metavar="SOURCE"
        ),
    ]
    left_out: ClassVar[tuple[str, ...]] = ()


def complete_field(incomplete: str) -> list[tuple[str, str]]:
    """Return the fields of a run file with this beginning, and their descriptions."""
    names = {f"{field_name(*key)}=": field.description for key, field in FIELDS.items()}
    return [(name, text) for name, text in names.items() if name.startswith(incomplete)]


Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Any other field: see hexveil help fields.",
        rich_help_panel=FIELDS_PANEL,
        autocompletion=complete_field,
    ),
]


def command_of(name: str, declared: type[Declaration]) -> Callable[..., int | None]:
    """Return the function that the parser makes a command of."""
    takes_run = issubclass(declared, RunDeclaration)
    hints = typing.get_type_hints(declared, include_extras=True)
    # What is common to all commands comes last.
    command_parameters = [
        _parameter(
            field.name,
            _annotated(declared, field.name, hints[field.name]),
            inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
        )
        for field in sorted(dataclasses.fields(declared), key=lambda field: field.name == "as_json")
    ]
    parameters = [*command_parameters, *_run_parameters(declared)]

    def command(**options: Any) -> int | None:  # noqa: ANN401  options of every kind
        body = getattr(
            import_module(declared.home or f"{__package__}.commands.{name}_command"), name
        )
        values = declared(**{field.name: options.pop(field.name) for field in command_parameters})
        if not takes_run:
            return typing.cast("int | None", body(values))
        from hexveil.config import load  # noqa: PLC0415  checks load a library, help must not wait

        run = load(options.pop("source"), _overrides(options))
        # Paths of a run are relative to its file.
        with contextlib.chdir(run.folder):
            return typing.cast("int | None", body(run, values))

    # The parser reads signature, name and documentation of a function, and calls it by keywords.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__name__ = name
    command.__doc__ = declared.__doc__
    return command


@cache
def _texts() -> dict[str, Any]:
    """Return the texts of options, by class and name; the list of commands has no use for them."""
    return tomllib.loads((files(__package__) / "options.toml").read_text("utf-8"))


def _annotated(declared: type[Declaration], name: str, hint: Any) -> object:  # noqa: ANN401  a type
    """Return the type of an option with its text; a type that has one already as it is."""
    tables = (_texts().get(one.__name__, {}) for one in declared.__mro__)
    text = next((dict(table[name]) for table in tables if name in table), None)
    if text is None:
        return hint
    if text.pop("argument", False):
        return Annotated[hint, typer.Argument(**text)]
    # A switch alone has no --no-...; other flags follow from the name.
    flag = text.pop("flag", f"--{name.replace('_', '-')}" if hint is bool else None)
    # A command with a run stands in the folder of its file when a path is used.
    is_moved = issubclass(declared, RunDeclaration) and Path in (hint, *typing.get_args(hint))
    return Annotated[hint, typer.Option(*filter(None, [flag]), resolve_path=is_moved, **text)]


def _run_parameters(declared: type[Declaration]) -> Iterator[inspect.Parameter]:
    """Yield the source, an option for each field that people type, and --set."""
    if not issubclass(declared, RunDeclaration):
        return
    yield _parameter("source", declared.source, None)
    for key in OPTIONS:
        if key[0] not in declared.left_out:
            yield _parameter(_keyword(key), _option_type(key), None)
    yield _parameter("assignments", Set, None)


def _keyword(key: Key) -> str:
    """Return the keyword of a field: sections share names, such as timezone."""
    return f"{key[0]}_{key[1]}"


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _option_type(key: Key) -> object:
    """Return the annotation of a field's option; a value is text, checked where the file's are."""
    field, (flag, text) = FIELDS[key], OPTIONS[key]
    shape = field.shape.rstrip("+").replace("[COLUMN=]", "")
    about = typer.Option(flag, help=text, rich_help_panel=FIELDS_PANEL, metavar=shape)
    return Annotated[list[str] | None if field.is_repeated else str | None, about]


def _overrides(options: dict[str, Any]) -> dict[Key, object]:
    """Return the values of fields that were given, by options or by --set."""
    assigned = assignments(options.pop("assignments") or ())
    for key in OPTIONS:
        value = options.get(_keyword(key))
        # An option that was not used is None, or an empty list if it may be repeated.
        if value in (None, []):
            continue
        if key in assigned:
            raise InputError(
                f"{option(*key)} and --set {field_name(*key)} are the same field: use one."
            )
        assigned[key] = value
    return assigned


def assignments(texts: tuple[str, ...] | list[str]) -> dict[Key, object]:
    """Return the fields and values of --set.

    Raises
    ------
    InputError
        If a text assigns nothing, names no field, or names one twice that has one value.

    Examples
    --------
    >>> assignments(["plan.method=per-cell", "cells.one_cell=true"])
    {('plan', 'method'): 'per-cell', ('cells', 'one_cell'): True}
    """
    fields: dict[Key, object] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        key = _key_of(name.strip())
        if not sign:
            raise InputError(f"--set {name} names no value; write --set {name}=VALUE.")
        if FIELDS[key].is_repeated:
            fields[key] = [*typing.cast("list[str]", fields.get(key, [])), value]
            continue
        if key in fields:
            raise InputError(f"--set {name} is given twice; give it once.")
        fields[key] = _value_of(key, value)
    return fields


def _key_of(name: str) -> Key:
    """Return the key of a field's name; refuse a name that there is not."""
    section, _, field = name.rpartition(".")
    if (section, field) in FIELDS:
        return section, field
    names = [field_name(*key) for key in FIELDS]
    matches = [candidate for candidate in names if candidate.rpartition(".")[2] == field]
    matches = matches or difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {' or '.join(matches)}? " if matches else ""
    raise InputError(f"--set: there is no field {name!r}; {hint}hexveil help fields lists all.")


def _value_of(key: Key, value: str) -> object:
    """Return the value of a field as in a run file; its text is checked later."""
    shape = FIELDS[key].shape
    if shape == "SWITCH":
        if value not in ("true", "false"):
            raise InputError(f"{option(*key)} must be true or false, got {value!r}.")
        return value == "true"
    if shape == "TEXT,...;...":
        return [[item.strip() for item in group.split(",")] for group in value.split(";")]
    return value
