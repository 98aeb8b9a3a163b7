"""`hexveil simulate` with its options; its body: `invented_records`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hexveil.cli.options import Declaration


class SimulateOptions(Declaration):
    """Write records of buses or private cars in an invented city.

    The same options give the same records; a longer period begins with the same days.
    """

    home = "hexveil_research.invented_records"
    example = "hexveil simulate --users 300 --days 7 --seed 1 --out city.parquet"

    out: Path
    vehicles: Literal["buses", "cars"] = "buses"
    users: int | None = None
    days: int | None = None
    seed: int = 1
    start: str = "2024-01-01"
    interval: str = "20s"
    streets: Path | None = None


DECLARED = SimulateOptions
