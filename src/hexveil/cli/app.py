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
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast

import typer
from typer.core import TyperCommand, TyperGroup

import hexveil
from hexveil.base.errors import HexveilError, InputError
from hexveil.base.optional_packages import extras_named
from hexveil.cli import declarations
from hexveil.cli.endings import CODE as INTERRUPTED
from hexveil.cli.endings import STOPPED, UNEXPECTED, Failure, remedy
from hexveil.cli.options import Declaration, command_of
from hexveil.config.fields import FIELDS, field_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hexveil.cli.formatting import Row


# The parser is the library's own copy or the one it depends on; its error type is reached
# through a name that both export.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


class CommandGroup(NamedTuple):
    """A group of commands.

    Attributes
    ----------
    purpose, example : str
    panels : mapping of str to mapping of str to command
        Commands by purpose and name.
    """

    purpose: str
    example: str
    panels: Mapping[str, Mapping[str, AnyCommand]]

    def to_typer(self, name: str, callback: Callable[..., None] | None = None) -> typer.Typer:
        """Return the group as the parser takes it; without a command it shows its help."""

        class OfPanels(_LazyGroup):
            group = self

        # A pretty traceback prints local variables, and these hold values.
        app = typer.Typer(
            name=name,
            cls=OfPanels,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            add_completion=callback is not None,
        )
        app.callback(
            invoke_without_command=True, help=self.purpose, epilog=f"Example:  {self.example}"
        )(callback or _show_help)
        return app


AnyCommand: TypeAlias = "type[Declaration] | str | CommandGroup"
"""A declaration, a group, or the purpose of another package's command: an entry point names its
declaration."""


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def purpose_of(command: AnyCommand) -> str:
    """Return the purpose of a command: the first line of its documentation."""
    if isinstance(command, CommandGroup):
        return command.purpose
    return command if isinstance(command, str) else (command.__doc__ or "").split("\n")[0]


def _built(name: str, command: AnyCommand) -> TyperCommand | TyperGroup:
    """Build a command, or a group."""
    if isinstance(command, CommandGroup):
        return cast("TyperGroup", typer.main.get_command(command.to_typer(name)))
    if isinstance(command, str):
        (point,) = entry_points(group="hexveil.commands", name=name)
        # By entry point: this package imports nothing of research.
        command = cast("type[Declaration]", import_module(point.module).DECLARED)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=_PanelCommand, epilog=f"Example:  {command.example}")(
        command_of(name.replace("-", "_"), command)
    )
    return cast("TyperCommand", typer.main.get_command(app))


class _PanelCommand(TyperCommand):
    """Command with help in panels: its own options, and those of a run's fields."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  the parser's own
        """Write a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                # Without the type.
                panels["Arguments"].append((record[0].split(" <")[0], record[1]))
            else:
                panel = getattr(parameter, "rich_help_panel", None) or "Options"
                panels.setdefault(panel, []).append(record)
        _write_sections(formatter, {title: lines for title, lines in panels.items() if lines})


class _LazyGroup(TyperGroup):
    """Group of commands by purpose, built on request."""

    group: CommandGroup

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  what the parser's own group takes
        names = [name for commands in self.group.panels.values() for name in commands]
        super().__init__(**options | {"commands": dict.fromkeys(names)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  the parser's own
        """Return a command, or None if there is none of this name."""
        for commands in self.group.panels.values():
            if cmd_name in commands and self.commands[cmd_name] is None:
                self.commands[cmd_name] = _built(cmd_name, commands[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002  the same
        """Write name and purpose of each command, by purpose."""
        panels = {
            panel: [(name, purpose_of(command)) for name, command in commands.items()]
            for panel, commands in self.group.panels.items()
        }
        _write_sections(formatter, panels)


def _write_sections(formatter: Any, panels: Mapping[str, list[tuple[str, str]]]) -> None:  # noqa: ANN401
    """Write the lines of each panel below its title."""
    for title, lines in panels.items():
        with formatter.section(title):
            formatter.write_dl(lines)


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
        }
    },
)
PANELS: dict[str, dict[str, AnyCommand]] = {
    "Publish": {
        "demo": declarations.DemoOptions,
        "map": declarations.MapOptions,
        "inspect": declarations.InspectOptions,
        "plan": declarations.PlanOptions,
        "release": declarations.ReleaseOptions,
        "publish": declarations.PublishOptions,
        "studio": declarations.StudioOptions,
    },
    "Check releases": {
        "verify": declarations.VerifyOptions,
        "dossier": declarations.DossierOptions,
        "compare": declarations.CompareOptions,
        "roll-up": declarations.RollUpOptions,
    },
    "Study": {
        "evaluate": declarations.EvaluateOptions,
        "reproduce": "Reproduce the papers' figures and claims.",
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
    _show_help(context)


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


def help(options: declarations.HelpOptions) -> None:  # noqa: A001  the command's name
    """Print the help of a command, or the fields of a run file."""
    topic = options.topic or []
    if topic[:1] == ["fields"]:
        _show_fields(topic[1:])
        return
    page = help_page([*topic, "--help"])
    if page is None:
        raise InputError(f"there is no command {' '.join(topic)!r}; hexveil --help lists them.")
    typer.echo(page)


def _show_fields(sections: list[str]) -> None:
    """Print the fields of all sections, or of some."""
    names = list(dict.fromkeys(section for section, _ in FIELDS))
    for section in sections:
        if section not in names:
            raise InputError(
                f"there is no section {section!r}; a run file has {', '.join(filter(None, names))}."
            )
    fields = {key: field for key, field in FIELDS.items() if not sections or key[0] in sections}
    from hexveil.cli.formatting import text_of  # noqa: PLC0415  loads a moment

    rows: list[Row] = []
    for section in dict.fromkeys(section for section, _ in fields):
        rows += ["", f"[{section}]"] if section else []
        rows += [
            (name, f"{field.shape.rstrip('+')}. {field.full_description}")
            for (home, name), field in fields.items()
            if home == section
        ]
    typer.echo(text_of(rows, indent=32).lstrip("\n"))


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
                with extras_named():
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
        message = UNEXPECTED.format(type(error).__name__)
        return 1, Failure("UnexpectedError", message, remedy(message), 1)
    # A command that returns nothing has succeeded.
    code = code if isinstance(code, int) else 0
    return code, STOPPED if code == INTERRUPTED else None
