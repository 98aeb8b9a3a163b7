"""Mechanisms on one contract: a file per algorithm, with its proof."""

from hexveil.mechanisms.registry import REGISTRY, parse
from hexveil.mechanisms.single_cell.array_averaging import ArrayAveraging, OptArrayAveraging
from hexveil.mechanisms.single_cell.auto import Auto
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.clipped_user_sums import (
    Baseline,
    OptimalClipping,
    ThresholdMechanism,
)
from hexveil.mechanisms.single_cell.levy import Levy
from hexveil.mechanisms.single_cell.quantile_averaging import AKMV, FixedQuantile, OptimizedQuantile

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
