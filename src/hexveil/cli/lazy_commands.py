"""Commands with a known name and purpose that load when they are used.

Help and shell completion run far more often than any single command, and must not wait for the
libraries of all commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable


class _Later:
    """Base of lazily loaded commands and groups: only name and purpose are known at first."""

    def __init__(self, name: str, purpose: str, panel: str, load: Callable[[], Any]) -> None:
        # Only these are there; asking for anything else (__getattr__) loads the command.
        vars(self).update(
            {
                "name": name,
                "short_help": purpose,
                "rich_help_panel": panel,
                "hidden": False,
                "deprecated": False,
                "_load": load,
            }
        )

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  of a command that is not loaded yet
        load = None if name.startswith("__") else vars(self).pop("_load", None)
        if load is not None:
            vars(self).update(vars(load()) | vars(self))
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None


class LaterCommand(_Later, TyperCommand):
    """Command that loads on the first access to more than its name."""


class LaterGroup(_Later, TyperGroup):
    """Group of commands that loads on the first access to more than its name."""
