"""The command line: its sub-commands, and the exit code and message of every error.

Exit 0 done or replayed; 1 the program or the machine failed; 2 wrong use or bad input; 3 refused
by the budget; 130 interrupted. An error is one sentence on stderr, or one object with `--json`.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

import hexveil
from hexveil.base.errors import HexveilError
from hexveil.cli import declarations
from hexveil.cli.command_groups import AnyCommand, CommandGroup, InstalledCommand
from hexveil.cli.failures import Failure, remedy
from hexveil.cli.interrupts import CODE as INTERRUPTED
from hexveil.cli.interrupts import STOPPED
from hexveil.config.fields import FIELDS, field_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNEXPECTED = (
    "an unexpected {} stopped the work; its text is hidden because it could contain values. "
    "HEXVEIL_DEBUG=1 shows it to you alone; SECURITY.md explains how to report it."
)

# The parser is the library's own copy or the one it depends on; its error type is reached
# through a name that both export.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


LEDGER = CommandGroup(
    "Manage the privacy ledger: create, show, verify.",
    "hexveil ledger show buses.toml",
    {
        "Commands": {
            "init": declarations.LedgerInitOptions,
            "show": declarations.LedgerShowOptions,
            "history": declarations.LedgerHistoryOptions,
            "set-budget": declarations.LedgerSetBudgetOptions,
            "verify": declarations.LedgerVerifyOptions,
            "resolve": declarations.LedgerResolveOptions,
            "keygen": declarations.LedgerKeygenOptions,
            "export": declarations.LedgerExportOptions,
        }
    },
)
PANELS: dict[str, dict[str, AnyCommand]] = {
    "Publish": {
        "demo": declarations.DemoOptions,
        "inspect": declarations.InspectOptions,
        "plan": declarations.PlanOptions,
        "release": declarations.ReleaseOptions,
        "publish": declarations.PublishOptions,
    },
    "Check releases": {
        "verify": declarations.VerifyOptions,
        "dossier": declarations.DossierOptions,
        "compare": declarations.CompareOptions,
        "roll-up": declarations.RollUpOptions,
    },
    "Study": {
        "evaluate": declarations.EvaluateOptions,
        "reproduce": InstalledCommand("Reproduce the papers' figures and claims."),
        "simulate": declarations.SimulateOptions,
    },
    "Ledger": {"ledger": LEDGER},
    "Help": {"help": declarations.HelpOptions},
}
"""Every command, by purpose."""


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"hexveil {hexveil.__version__}")
        raise typer.Exit


def _top(
    context: typer.Context,
    *,
    _show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app = CommandGroup(
    "Publish averages of sensor records per hexagon and hour, with a proof of privacy.",
    "hexveil demo",
    PANELS,
).to_typer("hexveil", _top)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning of the library as a line of the command's."""
    from hexveil.publishing.markup import clean  # noqa: PLC0415  where there is a warning

    typer.echo(f"Warning: {clean(str(message))}", err=True)


def help_page(words: Sequence[str]) -> str | None:
    """Return the help that these words ask for, if they ask for nothing else.

    The parser would check the options of every group on the way, with a library that takes longer
    to load than all else here.
    """
    *path, flag = words or ["--help"]
    if flag != "--help" or "_HEXVEIL_COMPLETE" in os.environ:
        return None
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="hexveil")
    for word in path:
        command = getattr(command, "get_command", lambda *_: None)(context, word)
        if command is None:
            return None
        context = typer.Context(command, info_name=word, parent=context)
    return str(command.get_help(context))


def _field_of(flag: str) -> str:
    """Return the field of a run file that an unknown option is called like; "" if there is none."""
    name = flag.removeprefix("--").removeprefix("no-").replace("-", "_")
    return next((field_name(*key) for key in FIELDS if key[1] == name), "")


def _usage_failure(error: Any) -> Failure:  # noqa: ANN401  the parser's own
    """Return the failure of words that the parser refuses."""
    sentence = error.format_message().rstrip(".")
    see = f"see {getattr(getattr(error, 'ctx', None), 'command_path', 'hexveil')} --help."
    field = _field_of(getattr(error, "option_name", ""))
    if field:
        return Failure("UsageError", f"{sentence}: write --set {field}=VALUE; {see}", see, 2)
    joined = f"{sentence} {see.capitalize()}" if sentence.endswith("?") else f"{sentence}; {see}"
    return Failure("UsageError", joined, see, 2)


def run(arguments: Sequence[str] | None = None) -> tuple[int, Failure | None]:
    """Run the command; return its exit code and its failure, if there is one to be shown."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", module="hexveil", category=UserWarning)
            warnings.showwarning = _warn
            words = sys.argv[1:] if arguments is None else [*arguments]
            page = help_page(words)
            # Not standalone: the parser would print errors and exit with codes of its own.
            code = 0
            if page is None:
                code = app(words, prog_name="hexveil", standalone_mode=False)
            else:
                typer.echo(page)
    except HexveilError as error:
        from hexveil.publishing.markup import clean  # noqa: PLC0415  where there is an error

        # Names of columns and files are in it, which others may have made to move the cursor.
        message = clean(str(error))
        failure = Failure(type(error).__name__, message, remedy(message), error.exit_code)
        return failure.exit_code, failure
    except _USAGE_ERROR as error:
        return 2, _usage_failure(error)
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
