"""What the command prints: drafts of run files, and queries of sums."""

import contextlib
import io
import json
import tomllib

from hexveil import Cells, InputError, OneCell, Select
from hexveil.cli import main

SECTIONS = {
    **dict.fromkeys(("user", "value", "lat", "lon", "location", "time"), "columns"),
    **dict.fromkeys(("bounds", "quantum"), "values"),
    "statistics": "plan",
}
"""Sections of a run file by argument; the other arguments are in [read]."""


def printed(*words):
    """Return what the command prints; raise InputError with what it says where it refuses."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, words)])
    if code == 2:
        raise InputError(err.getvalue())
    assert code == 0, err.getvalue()
    return out.getvalue()


def drafted(*words):
    """Return the fields of a draft by section; numbers as they are written."""
    fields = tomllib.loads(printed("inspect", *words, "--init"), parse_float=str)
    return json.loads(json.dumps(fields), parse_int=str)


def sums_query(*, source, dialect, cells, select=None, **options):
    """Return the query of sums for the arguments of `read`."""
    fields = {f"{SECTIONS.get(name, 'read')}.{name}": value for name, value in options.items()}
    if isinstance(cells, Cells):
        grid = vars(cells) | {"timeslot": cells.timeslot or "none"}
    else:
        grid = {"one_cell": True} if isinstance(cells, OneCell) else {"labels": cells.columns}
    fields |= {f"cells.{name}": value for name, value in grid.items()}
    fields |= {f"select.{name}": value for name, value in vars(select or Select()).items()}
    given = {n: v for n, v in fields.items() if str(v) not in ("None", "()", "False")}
    return printed(
        "inspect", source, "--sql", dialect, *(f"--set={n}={_text(v)}" for n, v in given.items())
    )


def _text(value):
    """Return a value as an option has it."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return "true" if value is True else str(value)
