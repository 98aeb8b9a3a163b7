"""Mechanisms on one contract: a file per algorithm, with its proof."""

from hexveil.mechanisms.registry import REGISTRY, parse
from hexveil.mechanisms.single_cell.akmv import AKMV
from hexveil.mechanisms.single_cell.array_averaging import ArrayAveraging
from hexveil.mechanisms.single_cell.auto import Auto
from hexveil.mechanisms.single_cell.baseline import Baseline
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.single_cell.clipped_user_sums import ThresholdMechanism
from hexveil.mechanisms.single_cell.foresight import Foresight
from hexveil.mechanisms.single_cell.levy import Levy
from hexveil.mechanisms.single_cell.opt_array_averaging import OptArrayAveraging
from hexveil.mechanisms.single_cell.optimal_clipping import OptimalClipping
from hexveil.mechanisms.single_cell.quantile_averaging import FixedQuantile, OptimizedQuantile

__all__ = [
    "AKMV",
    "REGISTRY",
    "ArrayAveraging",
    "Auto",
    "Baseline",
    "CellMechanism",
    "FixedQuantile",
    "Foresight",
    "Levy",
    "OptArrayAveraging",
    "OptimalClipping",
    "OptimizedQuantile",
    "ThresholdMechanism",
    "parse",
]
