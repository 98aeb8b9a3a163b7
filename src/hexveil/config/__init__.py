"""One TOML file describes a run: its fields are the arguments of `read`, `plan` and `release`."""

from typing import TYPE_CHECKING

from hexveil.base.lazy_names import load_on_use

if TYPE_CHECKING:
    from hexveil.config.loading import checked, load
    from hexveil.config.run_file import SECTIONS, Run

__all__ = ["SECTIONS", "Run", "checked", "load"]

_HOMES = {"checked": "loading", "load": "loading", "Run": "run_file", "SECTIONS": "run_file"}
__getattr__ = load_on_use(__name__, _HOMES)
