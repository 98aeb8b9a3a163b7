"""The command line: its sub-commands, and the exit code and message of every error.

Exit 0 done or replayed; 1 the program or the machine failed; 2 wrong use or bad input; 3 refused
by the budget; 130 interrupted. An error is one sentence on stderr, or one object with `--json`.

Commands are built of their declarations on request: help and completion run far more often than
any single command, and load no library of one.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

import hexveil
from hexveil.base.errors import HexveilError, InputError
from hexveil.base.optional_packages import extras_named
from hexveil.cli import declarations
from hexveil.cli.endings import CODE as INTERRUPTED
from hexveil.cli.endings import STOPPED, UNEXPECTED, Failure
from hexveil.cli.options import Declaration, command_of, write_sections
from hexveil.config.fields import FIELDS, field_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.cli.formatting import Row


class CommandGroup(click.Group):
    """A group of commands, which are built on request; without a command it shows its help.

    A command `roll-up` is declared by `RollUpOptions`, one of the ledger by `LedgerShowOptions`.
    """

    def __init__(self, name: str, help: str, example: str, panels: Panels, **settings: Any) -> None:  # noqa: A002, ANN401  the parser's
        super().__init__(
            name,
            help=help,
            epilog=f"Example:  {example}",
            invoke_without_command=True,
            callback=click.pass_context(_show_help),
            **settings,
        )
        self.panels = panels

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  of any command
        """Run a command; of an interruption the parser itself would print an empty line."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of the commands, in their order."""
        return [name for names in self.panels.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; a refusal names the nearest, whether it was built or not."""
        names = self.list_commands(ctx)
        if cmd_name not in names:
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=names, ctx=ctx)
        if cmd_name not in self.commands:
            declared = self._declaration(cmd_name)
            if declared is None:
                from importlib.metadata import entry_points  # noqa: PLC0415  takes a moment

                (point,) = entry_points(group="hexveil.commands", name=cmd_name)
                # By entry point: this package imports nothing of research.
                declared = cast("type[Declaration]", import_module(point.module).DECLARED)
            self.commands[cmd_name] = command_of(cmd_name, declared)
        return self.commands.get(cmd_name)

    def _declaration(self, name: str) -> type[Declaration] | None:
        """Return the declaration of a command; None if another package has it."""
        words = f"{name} options" if self.name == "hexveil" else f"{self.name} {name} options"
        return getattr(declarations, words.replace("-", " ").title().replace(" ", ""), None)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write name and purpose of each command, by purpose."""
        purposes = OF_OTHERS | {name: command.help for name, command in self.commands.items()}
        for name in self.list_commands(ctx):
            if declared := self._declaration(name):
                purposes[name] = declared.__doc__
        panels = {
            panel: [(name, str(purposes[name]).split("\n")[0]) for name in names]
            for panel, names in self.panels.items()
        }
        write_sections(formatter, panels)


Panels: TypeAlias = "Mapping[str, Sequence[str]]"
"""Names of commands by purpose."""


def _show_help(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


PANELS = {
    "Publish": ("demo", "map", "inspect", "plan", "release", "publish", "studio"),
    "Check releases": ("verify", "dossier", "compare", "roll-up"),
    "Study": ("evaluate", "reproduce", "simulate"),
    "Ledger": ("ledger",),
    "Help": ("help",),
}
"""Every command, by purpose."""
OF_OTHERS: dict[str, str | None] = {
    "evaluate": "Compare mechanisms on one cell by simulation; nothing is spent.",
    "reproduce": "Reproduce the papers' figures and claims.",
    "simulate": "Write records of buses or private cars in an invented city.",
}
"""Purposes of commands of other packages, whose entry points name their declarations."""
LEDGER = CommandGroup(
    "ledger",
    "Manage the privacy ledger: create, show, verify.",
    "hexveil ledger show buses.toml",
    {"Commands": ("init", "show", "history", "set-budget", "verify", "resolve", "keygen")},
)


def _show_version(context: click.Context, _: object, requested: bool) -> None:
    if requested:
        click.echo(f"hexveil {hexveil.__version__}")
        context.exit()


app = CommandGroup(
    "hexveil",
    "Publish averages of sensor records per hexagon and hour, with a proof of privacy.",
    "hexveil demo",
    PANELS,
    commands={"ledger": LEDGER},
    params=[
        click.Option(
            ["--version"],
            help="Show the version.",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
        )
    ],
)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning of the library as a line of the command's."""
    from hexveil.publishing.markup import clean  # noqa: PLC0415  where there is a warning

    click.echo(f"Warning: {clean(str(message))}", err=True)


def help(options: declarations.HelpOptions) -> None:  # noqa: A001  the command's name
    """Print the help of a command, or the fields of a run file."""
    topic = options.topic
    if topic[:1] == ("fields",):
        _show_fields(topic[1:])
    else:
        app([*topic, "--help"], prog_name="hexveil", standalone_mode=False)


def _show_fields(sections: Sequence[str]) -> None:
    """Print the fields of all sections, or of some."""
    names = list(dict.fromkeys(section for section, _ in FIELDS))
    for section in sections:
        if section not in names:
            raise InputError(
                f"there is no section {section!r}; a run file has {', '.join(filter(None, names))}."
            )
    from hexveil.cli.formatting import text_of  # noqa: PLC0415  loads a moment

    rows: list[Row] = []
    for section in [name for name in names if not sections or name in sections]:
        rows += ["", f"[{section}]"] if section else []
        rows += [
            (name, f"{field.shape.rstrip('+')}. {field.full_description}")
            for (home, name), field in FIELDS.items()
            if home == section
        ]
    click.echo(text_of(rows, indent=32).lstrip("\n"))


def _usage_failure(error: click.UsageError) -> Failure:
    """Return the failure of words that the parser refuses."""
    sentence = error.format_message().rstrip(".")
    see = f"see {error.ctx.command_path if error.ctx else 'hexveil'} --help."
    # An unknown option may be called like a field of a run file.
    name = getattr(error, "option_name", "").removeprefix("--").removeprefix("no-")
    field = next((field_name(*key) for key in FIELDS if key[1] == name.replace("-", "_")), "")
    if field and error.ctx and any("--set" in known.opts for known in error.ctx.command.params):
        sentence = f"{error.message.rstrip('.')}: write --set {field}=VALUE"
    joined = f"{sentence} {see.capitalize()}" if sentence.endswith("?") else f"{sentence}; {see}"
    return Failure("UsageError", joined, 2)


def run(arguments: Sequence[str] | None = None) -> tuple[int, Failure | None]:
    """Run the command; return its exit code and its failure, if there is one to be shown."""
    try:
        with warnings.catch_warnings(), extras_named():
            warnings.filterwarnings("always", module="hexveil", category=UserWarning)
            warnings.showwarning = _warn
            # Not standalone: the parser would print errors and exit with codes of its own.
            code = app(arguments, prog_name="hexveil", standalone_mode=False)
    except HexveilError as error:
        from hexveil.publishing.markup import clean  # noqa: PLC0415  where there is an error

        # Names of columns and files are in it, which others may have made to move the cursor.
        failure = Failure(type(error).__name__, clean(str(error)), error.exit_code)
        return failure.exit_code, failure
    except click.UsageError as error:
        return 2, _usage_failure(error)
    # The parser turns an interruption into an error of its own.
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED, STOPPED
    except BrokenPipeError:
        # The reader of stdout has gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1, None
    except Exception as error:  # noqa: BLE001  the text of an unknown error may hold values
        if os.environ.get("HEXVEIL_DEBUG") == "1":
            traceback.print_exc()
        return 1, Failure("UnexpectedError", UNEXPECTED.format(type(error).__name__), 1)
    # A command that returns nothing has succeeded.
    code = code if isinstance(code, int) else 0
    return code, STOPPED if code == INTERRUPTED else None
