"""`hexveil reproduce` with its options; its body: `reproduction`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from hexveil.cli.options import RunDeclaration


class ReproduceOptions(RunDeclaration):
    """Reproduce the papers' figures and claims, and report which claims hold.

    With own counts or records, another built-in set or other numbers the figures are drawn of
    these. An interrupted run continues.
    """

    home = "hexveil_research.reproduction"
    example = "hexveil reproduce iot:fig3 --trials 1000"
    left_out: ClassVar[tuple[str, ...]] = ("plan", "release", "publish", "ledger")

    names: tuple[str, ...] = ()
    every: bool = False
    list_only: bool = False
    counts: Path | None = None
    built_in: str | None = None
    cell: str | None = None
    values: str | None = None
    epsilon: tuple[str, ...] = ()
    gamma: int | None = None
    q: float | None = None
    scale: int | None = None
    trials: int = 10_000
    seed: int = 0
    out: Path | None = None
    jobs: int | None = None


DECLARED = ReproduceOptions
