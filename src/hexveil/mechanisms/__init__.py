"""One cell: a file per algorithm. A plan is made from counts, bounds and ε alone."""

from hexveil.mechanisms.akmv import AKMV
from hexveil.mechanisms.array_averaging import ArrayAveraging
from hexveil.mechanisms.auto import Auto
from hexveil.mechanisms.baseline import Baseline
from hexveil.mechanisms.cell_plan import CellPlan, Mechanism, NoiseSource
from hexveil.mechanisms.foresight import Foresight
from hexveil.mechanisms.levy import Levy
from hexveil.mechanisms.opt_array_averaging import OptArrayAveraging
from hexveil.mechanisms.optimal_clipping import OptimalClipping
from hexveil.mechanisms.quantile_averaging import FixedQuantile, OptimizedQuantile
from hexveil.mechanisms.threshold import MeanPlan, ThresholdMechanism

__all__ = [
    "AKMV",
    "ArrayAveraging",
    "Auto",
    "Baseline",
    "CellPlan",
    "FixedQuantile",
    "Foresight",
    "Levy",
    "MeanPlan",
    "Mechanism",
    "NoiseSource",
    "OptArrayAveraging",
    "OptimalClipping",
    "OptimizedQuantile",
    "ThresholdMechanism",
]
