"""Tiny data sets with chosen sums, and plans with chosen rows."""

from fractions import Fraction

import numpy as np
import pyarrow as pa

import hexveil as hv
from hexveil import Dataset, Plan
from hexveil.mechanisms.looks.bounds import WithinBounds
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.request import Request
from hexveil.publishing.kinds.value_manifest import moment_entry
from hexveil.publishing.manifest import build_manifest
from hexveil.records.dataset import Sums
from hexveil.records.units import Units


def dataset_of(counts, totals=0, squares=None, *, scale=None, cells=None, **facts):
    """Return a data set of given counts (users down, cells across) and sums of each pair."""
    occupancy = hv.Occupancy.from_dense(counts)
    routes = tuple(f"line/{g}" for g in range(occupancy.n_cells))
    public = PublicMetadata(
        occupancy=occupancy,
        cells=cells or CellTable(hv.Labels("route"), labels={"route": routes}),
        lattice=scale or ValueLattice.of((0, 60), 1),
        **facts,
    )
    sums = np.array(np.broadcast_to(totals, occupancy.n_pairs), dtype=np.int64)
    units = Units(pa.array([f"bus {k}" for k in range(occupancy.n_users)]))
    return Dataset(public, Sums(sums, squares), units)


def plan_of(dataset, kept, noise=2.0, *, lower=None, upper=None, rows=None, **request):
    """Return a plan of given rows; of the mean alone unless other statistics are named.

    Rows by hand are no goal: plans of other rows are other requests by their edition.
    """
    n_cells, n_users = dataset.occupancy.n_cells, dataset.occupancy.n_users
    kept = np.broadcast_to(np.array(kept, dtype=np.int64), n_cells)
    low = float(dataset.public.lattice.lower) if lower is None else lower
    high = float(dataset.public.lattice.upper) if upper is None else upper
    made = {
        "mechanism": "OptimalClipping()",
        "contribution_cap": kept,
        "noise_scale_records": np.where(kept > 0, noise, 0.0),
        "variance_cap": np.zeros(n_cells, dtype=np.int64),
        "variance_noise": np.zeros(n_cells),
        "contribution_factor": np.ones(n_users),
    }
    asked = {
        "method": "per-cell",
        "mechanism": hv.mechanisms.OptimalClipping(),
        "statistics": ("mean",),
        "epsilon": Fraction(1),
        "edition": str(
            {name: np.asarray(one).tolist() for name, one in (made | (rows or {})).items()}
        ),
    }
    part = MomentComponent(
        occupancy=dataset.occupancy,
        lower=np.broadcast_to(np.array(low, dtype=float), n_cells),
        upper=np.broadcast_to(np.array(high, dtype=float), n_cells),
        allocation=PlanAllocation(**{"clipping": WithinBounds()} | made | (rows or {})),
        request=Request(**asked | request),
        baseline_error=3.0,
        facts=dataset.public,
    )
    return Plan.of(part)


def manifest_of(name, dataset, plan, ledger=None, accuracy=()):
    """Return the manifest of a plan of one value column of a data set."""
    facts = {dataset.public.value: dataset.public}
    entries = {dataset.public.value: moment_entry(dataset.public, plan.single, {}, accuracy)}
    return build_manifest(name, plan, facts, entries, ("0" * 64, ledger))
