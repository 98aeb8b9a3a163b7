"""One cell: a file per algorithm. A plan is made from counts, bounds and ε alone."""

from hexveil.mechanisms.baseline import Baseline
from hexveil.mechanisms.optimal_clipping import OptimalClipping
from hexveil.mechanisms.threshold import MeanPlan, NoiseSource, ThresholdMechanism

__all__ = ["Baseline", "MeanPlan", "NoiseSource", "OptimalClipping", "ThresholdMechanism"]
