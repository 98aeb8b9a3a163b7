"""A small plan of every kind."""

import numpy as np
import pyarrow as pa

import hexveil as hv
from model.stores import distributed_dataset
from planning.sums import small_city

BOTH = ("mean", "variance")
CITY = {
    "bounds": {"epsilon": 8, "clipping_range": "bounds"},
    "range": {"epsilon": 8, "statistics": BOTH, "clipping_range": "private"},
    "cell ranges": {"epsilon": 8, "clipping_range": "per-cell"},
    "targets": {"target_error": {"mean": 2, "variance": "11%"}, "statistics": BOTH},
    "clip-user": {"epsilon": 2, "method": "clip-user"},
    "stages": {"epsilon": 2, "method": "per-cell", "mechanism": "Levy(gamma=1)"},
    "delta": {"epsilon": 8, "delta": "0.001", "clipping_range": "private"},
}
RIDES = {
    "indicator": {"statistics": ("share<20",), "epsilon": 4},
    "ranks": {"statistics": ("mean", "p50"), "epsilon": 4, "estimator": "ranks"},
    "bins": {"statistics": ("mean", "p50"), "epsilon": 4, "estimator": "bins"},
    "ranks with delta": {
        "statistics": ("p50",),
        "epsilon": 4,
        "delta": "0.001",
        "estimator": "ranks",
    },
}
COLUMNS = {
    "columns": {"statistics": ("mean",), "epsilon": 4, "weights": {"speed": 2}},
    "columns of medians": {"statistics": ("mean", "p50"), "epsilon": 4},
    "columns with targets": {"statistics": ("mean",), "target_error": "10%"},
}
ELSEWHERE = {"cell ranges elsewhere": {"epsilon": 8, "clipping_range": "per-cell"}}
KINDS = (*CITY, *RIDES, *COLUMNS, *ELSEWHERE)


def rides(value, bounds):
    """Return the records of 12 vehicles in 2 wards, of whole numbers that no generator draws."""
    k = np.arange(96)
    table = pa.table(
        {
            "bus": (k % 12).astype(str),
            "ward": (k // 7 % 2).astype(str),
            "speed": 5 + k * 7 % 43,
            "heat": 10 + k * 5 % 29,
        }
    )
    return hv.read(
        table, user="bus", value=value, bounds=bounds, cells=hv.Labels("ward"),
        statistics=("mean", "p50", "share<20"),
    )  # fmt: skip


def records_of(name):
    """Return the records of a kind."""
    if name in CITY:
        return small_city()
    if name in ELSEWHERE:
        return distributed_dataset(small_city(), 4)
    if name in RIDES:
        return rides("speed", (0, 80))
    return rides(["speed", "heat"], {"speed": (0, 80), "heat": (0, 60)})


def planned(name, source):
    """Return the plan of a kind."""
    return hv.plan(source, advise=False, **(CITY | RIDES | COLUMNS | ELSEWHERE)[name])
