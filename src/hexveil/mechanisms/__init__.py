"""Mechanisms on one contract: a file per algorithm, with its proof."""

from hexveil.mechanisms.registry import REGISTRY, parse
from hexveil.mechanisms.single_cell.auto import Auto
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.linear.array_averaging import ArrayAveraging, OptArrayAveraging
from hexveil.mechanisms.single_cell.linear.clipped_user_sums import (
    Baseline,
    OptimalClipping,
    ThresholdMechanism,
)
from hexveil.mechanisms.single_cell.private_range.akmv import AKMV
from hexveil.mechanisms.single_cell.private_range.levy import Levy
from hexveil.mechanisms.single_cell.private_range.quantile_averaging import (
    FixedQuantile,
    OptimizedQuantile,
)

__all__ = [
    "AKMV",
    "REGISTRY",
    "ArrayAveraging",
    "Auto",
    "Baseline",
    "CellMechanism",
    "FixedQuantile",
    "Levy",
    "OptArrayAveraging",
    "OptimalClipping",
    "OptimizedQuantile",
    "ThresholdMechanism",
    "parse",
]
