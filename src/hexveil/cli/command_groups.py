"""Groups of commands, built of their declarations on request.

Help and completion run far more often than any single command, and load no library of one.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import typer
from typer.core import TyperCommand, TyperGroup

from hexveil.cli.options import Declaration, command_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class InstalledCommand(NamedTuple):
    """A command of another package: an entry point of the distribution names its declaration."""

    purpose: str


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


AnyCommand: TypeAlias = "type[Declaration] | InstalledCommand | CommandGroup"


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def purpose_of(command: AnyCommand) -> str:
    """Return the purpose of a command: the first line of its documentation."""
    if isinstance(command, (InstalledCommand, CommandGroup)):
        return command.purpose
    return (command.__doc__ or "").split("\n")[0]


def _built(name: str, command: AnyCommand) -> TyperCommand | TyperGroup:
    """Build a command, or a group."""
    if isinstance(command, CommandGroup):
        return cast("TyperGroup", typer.main.get_command(command.to_typer(name)))
    if isinstance(command, InstalledCommand):
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
