"""Errors, coverage and captions of every clipping range, over the collection of record sets.

``python -m benchmarks.clipping_ranges tuning|judging|NAME ... [--runs N] [--epsilons E ...]
[--out FILE]`` prints a table and writes it as CSV: mean absolute error over cells, share of true
averages that the stated 95 % intervals cover (over all cells, and of the worst cell), and the
typical error that the release states over the true one. The best constant is the median of the
true averages, which nobody may know. `auto` is what a user gets by default; the hindsight column
is the least error of all clipping ranges at this epsilon.

A run draws the noise of a release by the release's own functions and the vetted noise library,
without a ledger. Judging sets are looked at once, after the last constant is chosen
(collection.py).
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import hexveil as hv
from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import UNMETERED, MemoryJournal, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.planning.release_allocation import allocation_of, with_outputs
from hexveil.publishing.private_sums import private_sums

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the files beside this one
import collection  # beside this file
from collection import COLLECTION, RecordSet
from reach import constant, truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.planning import Plan

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

EPSILONS = ("0.5", "1", "2", "5")
RANGES = ("bounds", "private", "per-cell", "auto")
RUNS = 8
TARGETS = ("tuning", "judging")


@dataclass(frozen=True)
class Row:
    """Results of one clipping range on one set at one epsilon, over all runs."""

    set: str
    purpose: str
    unit: str
    cells: int
    epsilon: str
    clipping_range: str
    runs: int
    constant: float
    error: float
    coverage: float
    worst_cell: float
    caption: float
    good: float


@dataclass(frozen=True)
class Map:
    """Published means of one release, their intervals and the error that it states."""

    estimate: Floats
    low: Floats
    high: Floats
    stated_error: float
    good: Bools
