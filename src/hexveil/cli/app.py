"""The command line: its sub-commands, and the exit code and message of every error.

Exit 0 done or replayed; 1 the program or the machine failed; 2 wrong use or bad input; 3 refused
by the budget; 130 interrupted. An error is one sentence on stderr, or one object with `--json`.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

import hexveil
from hexveil.base.errors import HexveilError
from hexveil.cli.failures import Failure, remedy
from hexveil.cli.interrupts import CODE as INTERRUPTED
from hexveil.cli.interrupts import STOPPED
from hexveil.cli.lazy_commands import LaterCommand, LaterGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNEXPECTED = (
    "an unexpected {} stopped the work; its text is hidden because it could contain values. "
    "HEXVEIL_DEBUG=1 shows it to you alone; SECURITY.md explains how to report it."
)

# The parser is the library's own copy or the one it depends on; its error type is reached
# through a name that both export.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


@dataclass(frozen=True)
class CommandEntry:
    """Name and purpose of a command that is loaded when it is used.

    Attributes
    ----------
    name, purpose, example : str
    kind : "run", "plain" or "group"
        Whether it takes a run file and an option for each of its fields, is a function as it
        stands, or a group of commands.
    installed : bool
        Whether an entry point of the installed distribution names its module: research is no part
        of this package.
    """

    name: str
    purpose: str
    example: str
    kind: Literal["run", "plain", "group"] = "run"
    installed: bool = False

    def load(self) -> object:
        """Load the command from its module, once in a process."""
        return _loaded(self)

    def build(self) -> object:
        """Build the command, with its options, from its module."""
        module = self._module()
        typer_app = module.app if self.kind == "group" else typer.Typer(add_completion=False)
        if self.kind != "group":
            typer_app.command(self.name, epilog=f"Example:  {self.example}")(self._body(module))
        return typer.main.get_command(typer_app)

    @property
    def _function_name(self) -> str:
        """Name of the command in Python, which has no hyphens."""
        return self.name.replace("-", "_")

    def _module(self) -> Any:  # noqa: ANN401  a module has any names
        if not self.installed:
            return import_module(f"hexveil.cli.commands.{self._function_name}_command")
        # By entry point: this package imports nothing of research.
        (point,) = entry_points(group="hexveil.commands", name=self.name)
        return import_module(point.module)

    def _body(self, module: Any) -> Any:  # noqa: ANN401  a command's function, with its own options
        body = getattr(module, self._function_name)
        if self.kind == "plain":
            return body
        from hexveil.cli.options import run_command  # noqa: PLC0415  loading takes a moment

        own = {
            keyword: getattr(module, name)
            for keyword, name in (("leave_out", "LEFT_OUT"), ("source", "SOURCE"))
            if hasattr(module, name)
        }
        return run_command(body, **own)


@cache
def _loaded(entry: CommandEntry) -> object:
    """Return the command of an entry, which keeps nothing of a run."""
    return entry.build()


PANELS: dict[str, tuple[CommandEntry, ...]] = {
    "Publish": (
        CommandEntry(
            "demo",
            "Create a map of real flights, or of buses in an invented city.",
            "hexveil demo --city",
            "plain",
        ),
        CommandEntry(
            "inspect",
            "Show the grids that a fleet supports; --init drafts a run file.",
            "hexveil inspect buses.toml --epsilon 1",
        ),
        CommandEntry(
            "plan",
            "Show price and expected error before anything is spent.",
            "hexveil plan buses.toml --resolution 5 --epsilon 3",
        ),
        CommandEntry(
            "release",
            "Book the price, draw the noise, write the folder.",
            "hexveil release buses.toml --out map",
        ),
        CommandEntry(
            "publish",
            "Publish a map of every day, from a scheduler, under one budget.",
            "hexveil publish buses.toml --date 2026-11-20 --out maps",
        ),
    ),
    "Check releases": (
        CommandEntry(
            "verify",
            "Check a release folder; needs no records.",
            "hexveil verify map",
            "plain",
        ),
        CommandEntry(
            "dossier",
            "Write the document that a privacy officer completes and signs.",
            "hexveil dossier map --out dossier.md",
            "plain",
        ),
        CommandEntry(
            "compare",
            "Show what changed from one release to another; costs nothing.",
            "hexveil compare monday tuesday --out changes",
            "plain",
        ),
        CommandEntry(
            "roll-up",
            "Average a release over coarser cells; costs nothing.",
            "hexveil roll-up map --timeslot 1d --out days",
            "plain",
        ),
    ),
    "Study": (
        CommandEntry(
            "evaluate",
            "Compare mechanisms on one cell by simulation.",
            "hexveil evaluate --counts counts.json --values normal:20,10 --bounds 0,65",
        ),
        CommandEntry(
            "reproduce",
            "Reproduce the papers' figures and claims.",
            "hexveil reproduce iot:fig3 --trials 1000",
            installed=True,
        ),
        CommandEntry(
            "simulate",
            "Write records of an invented city of buses.",
            "hexveil simulate --users 300 --days 7 --seed 1 --out city.parquet",
            "plain",
        ),
    ),
    "Ledger": (
        CommandEntry(
            "ledger",
            "Manage the privacy ledger: create, show, verify.",
            "hexveil ledger show buses.toml",
            "group",
        ),
    ),
}
"""Every command, by purpose."""


class _Desk(TyperGroup):
    """Top-level group; its commands load when they are used."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  what the parser's own group takes
        commands = {
            entry.name: (LaterGroup if entry.kind == "group" else LaterCommand)(
                entry.name, entry.purpose, panel, entry.load
            )
            for panel, entries in PANELS.items()
            for entry in entries
        }
        super().__init__(**options | {"commands": commands})


app = typer.Typer(
    name="hexveil",
    cls=_Desk,
    rich_markup_mode="rich",
    # A pretty traceback prints local variables, and these hold values.
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"hexveil {hexveil.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Start here:  hexveil demo")
def _top(
    context: typer.Context,
    *,
    _show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Publish averages of sensor records per hexagon and hour, with a proof of privacy."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning of the library as a line of the command's."""
    from hexveil.publishing.markup import clean  # noqa: PLC0415  where there is a warning

    typer.echo(f"Warning: {clean(str(message))}", err=True)


def run(arguments: Sequence[str] | None = None) -> tuple[int, Failure | None]:
    """Run the command; return its exit code and its failure, if there is one to be shown."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", module="hexveil", category=UserWarning)
            warnings.showwarning = _warn
            # Not standalone: the parser would print errors and exit with codes of its own.
            code = app(arguments, prog_name="hexveil", standalone_mode=False)
    except HexveilError as error:
        from hexveil.publishing.markup import clean  # noqa: PLC0415  where there is an error

        # Names of columns and files are in it, which others may have made to move the cursor.
        message = clean(str(error))
        failure = Failure(type(error).__name__, message, remedy(message), error.exit_code)
        return failure.exit_code, failure
    except _USAGE_ERROR as error:
        sentence = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        command_path = getattr(getattr(error, "ctx", None), "command_path", "hexveil")
        joined = f"{sentence} See" if sentence.endswith("?") else f"{sentence}; see"
        hint = f"see {command_path} --help."
        return 2, Failure("UsageError", f"{joined} {command_path} --help.", hint, 2)
    # The parser turns an interruption into an error of its own.
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED, STOPPED
    except BrokenPipeError:
        # The reader of stdout has gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1, None
    except Exception as error:  # noqa: BLE001  the text of an unknown error may hold values
        if os.environ.get("HEXVEIL_DEBUG") == "1":
            traceback.print_exc()
        message = _UNEXPECTED.format(type(error).__name__)
        return 1, Failure("UnexpectedError", message, remedy(message), 1)
    # A command that returns nothing has succeeded.
    code = code if isinstance(code, int) else 0
    return code, STOPPED if code == INTERRUPTED else None
