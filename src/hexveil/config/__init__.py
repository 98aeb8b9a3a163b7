"""One TOML file describes a run: its fields are the arguments of `read`, `plan` and `release`."""

from typing import TYPE_CHECKING

from hexveil.base.optional_packages import load_on_use

if TYPE_CHECKING:
    from hexveil.config.run_file import Run, checked, load

__all__ = ["Run", "checked", "load"]

__getattr__ = load_on_use(__name__, {"checked": "run_file", "load": "run_file", "Run": "run_file"})
