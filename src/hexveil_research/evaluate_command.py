"""`hexveil evaluate` with its options; its body: `cell_comparison`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from hexveil.cli.options import RunDeclaration


class EvaluateOptions(RunDeclaration):
    """Compare mechanisms on one cell by simulation; nothing is spent.

    The cell comes from the records, or from a file of counts; a table without places or labels is
    one cell. Values are simulated, or those of the records: then all output is PRIVATE.
    """

    home = "hexveil_research.cell_comparison"
    example = "hexveil evaluate --counts counts.json --values normal:20,10 --bounds 0,65"
    left_out: ClassVar[tuple[str, ...]] = ("plan", "release", "publish", "ledger")

    counts: Path | None = None
    cell: str | None = None
    values: str | None = None
    mechanism: tuple[str, ...] = ()
    epsilon: tuple[str, ...] = ()
    trials: int = 10000
    seed: int = 0


DECLARED = EvaluateOptions
