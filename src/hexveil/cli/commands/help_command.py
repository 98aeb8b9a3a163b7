"""`hexveil help`: a command, or the fields of a run file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from hexveil.base.errors import InputError
from hexveil.cli.output.formatting import text_of
from hexveil.config.fields import FIELDS, field_name, option

if TYPE_CHECKING:
    from hexveil.cli.declarations import HelpOptions
    from hexveil.cli.output.formatting import Row


def help(options: HelpOptions) -> None:  # noqa: A001  the command's name
    """Print the help of a command, or the fields of a run file."""
    topic = options.topic or []
    if topic[:1] == ["fields"]:
        _show_fields(topic[1:], as_json=options.as_json)
        return
    from hexveil.cli.app import help_page  # noqa: PLC0415  the commands' home

    page = help_page([*topic, "--help"])
    if page is None:
        raise InputError(f"there is no command {' '.join(topic)!r}; hexveil --help lists them.")
    typer.echo(page)


def _show_fields(sections: list[str], *, as_json: bool) -> None:
    """Print the fields of all sections, or of some."""
    names = list(dict.fromkeys(section for section, _ in FIELDS))
    for section in sections:
        if section not in names:
            raise InputError(
                f"there is no section {section!r}; a run file has {', '.join(filter(None, names))}."
            )
    fields = {key: field for key, field in FIELDS.items() if not sections or key[0] in sections}
    if as_json:
        content = {
            field_name(*key): {
                "option": option(*key),
                "shape": field.shape,
                "description": field.description,
                "default": field.default,
            }
            for key, field in fields.items()
        }
        typer.echo(json.dumps(content, indent=2))
        return
    rows: list[Row] = []
    for section in dict.fromkeys(section for section, _ in fields):
        rows += ["", f"[{section}]"] if section else []
        rows += [
            (name, f"{field.shape.rstrip('+')}. {field.full_description}")
            for (home, name), field in fields.items()
            if home == section
        ]
    typer.echo(text_of(rows, indent=32).lstrip("\n"))
