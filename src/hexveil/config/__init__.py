"""One TOML file describes a run: its fields are the arguments of `read`, `plan` and `release`."""

from hexveil.config.loading import checked, load
from hexveil.config.run_file import FIELDS, SECTIONS, Run

__all__ = ["FIELDS", "SECTIONS", "Run", "checked", "load"]
