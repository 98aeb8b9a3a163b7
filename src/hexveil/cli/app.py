"""The command itself: its sub-commands, and what every error becomes.

Exit 0 done or replayed; 1 the program or the machine failed; 2 wrong use or bad input; 3 refused
by the budget; 130 interrupted. An error is one line on stderr.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated

import typer

import hexveil
from hexveil.cli import (
    demo,
    dossier,
    evaluate,
    inspect,
    ledger,
    plan,
    publish,
    release,
    reproduce,
    simulate,
    verify,
)
from hexveil.cli.options import run_command
from hexveil.errors import HexveilError
from hexveil.publishing.prose import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="hexveil",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)

# The parser is the library's own copy or the one it depends on; its error type is reached
# through a name that both export.
_UNEXPECTED = (
    "an unexpected {} stopped the work; nothing is shown of it, for its text could hold values. "
    "HEXVEIL_DEBUG=1 shows it to you alone; SECURITY.md says how to report it."
)

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hexveil {hexveil.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Start here:  hexveil demo")
def _top(
    context: typer.Context,
    *,
    _asked: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Publish averages of sensor records per hexagon and hour, with a proof of privacy."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("demo", epilog="Example:  hexveil demo --city")(demo.demo)
for _body, _example in (
    (inspect.inspect, "hexveil inspect buses.toml --epsilon 1"),
    (plan.plan, "hexveil plan buses.toml --resolution 5 --epsilon 3"),
    (release.release, "hexveil release buses.toml --out map"),
):
    app.command(_body.__name__, epilog=f"Example:  {_example}")(run_command(_body))
app.command("publish", epilog="Example:  hexveil publish buses.toml --date 2026-11-20 --out maps")(
    run_command(publish.publish, leave_out=())
)
app.command(
    "evaluate",
    epilog="Example:  hexveil evaluate --counts counts.json --values normal:20,10 --bounds 0,65",
)(run_command(evaluate.evaluate, leave_out=evaluate.LEFT_OUT))
app.command("reproduce", epilog="Example:  hexveil reproduce iot:fig3 --trials 1000")(
    reproduce.reproduce
)
app.command(
    "simulate", epilog="Example:  hexveil simulate --users 300 --days 7 --seed 1 --out city.parquet"
)(simulate.simulate)
app.add_typer(ledger.app, name="ledger")
app.command("verify", epilog="Example:  hexveil verify map")(verify.verify)
app.command("dossier", epilog="Example:  hexveil dossier map --out dossier.md")(dossier.dossier)


def run(arguments: Sequence[str] | None = None) -> tuple[int, str | None]:
    """Run the command; return its exit code and the line for stderr, if there is one."""
    try:
        code = app(arguments, prog_name="hexveil", standalone_mode=False)
    except HexveilError as error:
        # Names of columns and files are in it, which others may have made to move the cursor.
        return error.exit_code, clean(str(error))
    except _USAGE_ERROR as error:
        sentence = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        return 2, f"{sentence}; see hexveil --help."
    except (KeyboardInterrupt, typer.Abort):
        return 130, "interrupted."
    except BrokenPipeError:
        # The reader of stdout has gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1, None
    except Exception as error:  # noqa: BLE001  the text of an unknown error may hold values
        if os.environ.get("HEXVEIL_DEBUG") == "1":
            traceback.print_exc()
        return 1, _UNEXPECTED.format(type(error).__name__)
    code = code if isinstance(code, int) else 0
    return code, "interrupted." if code == 130 else None
