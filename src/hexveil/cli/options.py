"""Commands made of declared options, with options and --set for the fields of a run file.

A command's declaration is a data class: its fields are the options that the parser reads (their
texts are in options.toml), its documentation is the help. Its body is called with the checked run,
if it takes one, and with an object of this class. Neither help nor completion loads a body.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import tomllib
import types
import typing
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import click

from hexveil.base.errors import InputError
from hexveil.config.fields import FIELDS, OPTIONS, field_name, option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from click.shell_completion import CompletionItem

    Key = tuple[str, str]


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
    left_out : tuple of str
        Sections whose fields have no option here: the command uses their names itself.
    """

    left_out: ClassVar[tuple[str, ...]] = ()


class FieldOption(click.Option):
    """An option for a field of the run file."""


class PanelCommand(click.Command):
    """Command with help in panels: its own options, and those of a run's fields."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                is_field = isinstance(parameter, FieldOption)
                panel = "Fields of the run file" if is_field else "Options"
                panels.setdefault(panel, []).append(record)
        write_sections(formatter, panels)


def write_sections(
    formatter: click.HelpFormatter, panels: Mapping[str, list[tuple[str, str]]]
) -> None:
    """Write the lines of each panel below its title."""
    for title, lines in panels.items():
        with formatter.section(title):
            formatter.write_dl(lines)


def command_of(name: str, declared: type[Declaration]) -> click.Command:
    """Return the command of a declaration."""
    fields = {field.name: field.default for field in dataclasses.fields(declared)}
    hints = typing.get_type_hints(declared)
    # What is common to all commands comes last.
    parameters = [
        _parameter(declared, field, hints[field], fields[field])
        for field in sorted(fields, key="as_json".__eq__)
    ]
    run_parameters = _run_parameters(declared) if issubclass(declared, RunDeclaration) else ()

    def called(**given: Any) -> int | None:  # noqa: ANN401  options of every kind
        own = name.replace("-", "_")
        home = declared.home or f"{__package__}.commands.{own}_command"
        body = getattr(import_module(home), own)
        values = declared(**{field: given.pop(field) for field in fields})
        if not issubclass(declared, RunDeclaration):
            return typing.cast("int | None", body(values))
        from hexveil.config import load  # noqa: PLC0415  checks load a library, help must not wait

        run = load(given.pop("source"), _overrides(given))
        # Paths of a run are relative to its file.
        with contextlib.chdir(run.folder):
            return typing.cast("int | None", body(run, values))

    return PanelCommand(
        name,
        params=[*parameters, *run_parameters],
        callback=called,
        help=declared.__doc__,
        short_help=(declared.__doc__ or "").split("\n")[0],
        epilog=f"Example:  {declared.example}",
        context_settings={"show_default": True},
    )


@cache
def _texts(package: str) -> dict[str, Any]:
    """Return the texts of a package's options, by class and name."""
    return tomllib.loads((files(package) / "options.toml").read_text("utf-8"))


def _parameter(
    declared: type[Declaration],
    name: str,
    hint: Any,  # noqa: ANN401  a type
    default: object = None,
) -> click.Parameter:
    """Return an option or argument by its type, and its text in options.toml."""
    tables = (
        _texts(one.__module__.rpartition(".")[0]).get(one.__name__, {})
        for one in declared.__mro__
        if issubclass(one, Declaration)
    )
    settings: dict[str, Any] = dict(next(table[name] for table in tables if name in table))
    is_argument = settings.pop("argument", False)
    flag = settings.pop("flag", f"--{name.replace('_', '-')}")
    if isinstance(hint, types.UnionType):
        hint = typing.get_args(hint)[0]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    is_repeated = parts[1:] == (...,)
    kind = parts[0] if origin is tuple else hint
    if kind is Path:
        # A command with a run stands in the folder of its file when a path is used.
        kind = click.Path(path_type=Path, resolve_path=issubclass(declared, RunDeclaration))
    elif origin is Literal:
        kind = click.Choice(parts)
    elif "min" in settings:
        kind = click.IntRange(min=settings.pop("min"))
    is_required = default is dataclasses.MISSING
    settings |= {"type": kind, "required": is_required} | (
        {} if is_required else {"default": default}
    )
    if is_argument:
        return click.Argument([name], nargs=-1 if is_repeated else 1, **settings)
    return click.Option([flag, name], is_flag=hint is bool, multiple=is_repeated, **settings)


def _run_parameters(declared: type[RunDeclaration]) -> Iterator[click.Parameter]:
    """Yield the source, an option for each field that people type, and --set."""
    yield _parameter(declared, "source", str)
    for key, (flag, text) in OPTIONS.items():
        if key[0] not in declared.left_out:
            # By section and name: sections share names, such as timezone.
            field = FIELDS[key]
            shape = field.shape.rstrip("+").replace("[COLUMN=]", "")
            names = [flag, "_".join(key)]
            yield FieldOption(names, help=text, metavar=shape, multiple=field.is_repeated)
    yield FieldOption(
        ["--set", "assignments"],
        metavar="FIELD=VALUE",
        help="Any other field: see hexveil help fields.",
        multiple=True,
        shell_complete=_complete_field,
    )


def _complete_field(_: object, __: object, incomplete: str) -> list[CompletionItem]:
    """Return the fields of a run file with this beginning, and their descriptions."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  for completion alone

    names = {f"{field_name(*key)}=": field.description for key, field in FIELDS.items()}
    return [
        CompletionItem(name, help=text)
        for name, text in names.items()
        if name.startswith(incomplete)
    ]


def _overrides(options: dict[str, Any]) -> dict[Key, object]:
    """Return the values of fields that were given, by options or by --set."""
    assigned = assignments(options.pop("assignments"))
    for key in OPTIONS:
        value = options.get("_".join(key))
        # An option that was not used is None, or nothing if it may be repeated.
        if value in (None, ()):
            continue
        if key in assigned:
            raise InputError(
                f"{option(*key)} and --set {field_name(*key)} are the same field: use one."
            )
        assigned[key] = [*value] if FIELDS[key].is_repeated else value
    return assigned


def assignments(texts: Iterable[str]) -> dict[Key, object]:
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
