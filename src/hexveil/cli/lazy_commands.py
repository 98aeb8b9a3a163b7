"""Commands that are known by name and purpose, and loaded when one of them is used.

Asking for help, or for the completion of a command's name, happens far more often than any one
command runs, and must not wait for the libraries of all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable


class _Later:
    """What a command and a group of commands have in common: all but their names comes later."""

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
    """A command that is loaded when more than its name is asked for."""


class LaterGroup(_Later, TyperGroup):
    """A group of commands that is loaded when more than its name is asked for."""
