"""One TOML file describes a run: its fields are the arguments of `read`, `plan` and `release`."""

from typing import TYPE_CHECKING

from hexveil.base.optional_packages import load_on_use

if TYPE_CHECKING:
    from hexveil.config.loading import checked, load
    from hexveil.config.run_file import Run

__all__ = ["Run", "checked", "load"]

__getattr__ = load_on_use(__name__, {"checked": "loading", "load": "loading", "Run": "run_file"})
