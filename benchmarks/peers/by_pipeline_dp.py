"""Averages, quantiles and shares by pipeline-dp on its local backend.

It bounds a user's contributions itself. Quantiles come from one tree for each cell (Google's
library); the share is a mean of zeros and ones in a second aggregation, as a metric of this library
is about one value. The accountant divides ε: two parts of three for the tree.
"""

import common
import numpy as np
import pipeline_dp
from numpy.typing import NDArray


def averages(work: common.Work, *, cells: int, rows: int) -> NDArray[np.float64]:
    """Return the average of each cell."""
    if cells:
        most = {"max_partitions_contributed": cells, "max_contributions_per_partition": rows}
    else:
        most = {"max_contributions": rows}
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=common.EPSILON, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    result = engine.aggregate(
        zip(work.user.tolist(), work.cell.tolist(), work.value.tolist(), strict=True),
        pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.MEAN],
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            min_value=work.lower,
            max_value=work.upper,
            **most,
        ),
        pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        ),
        public_partitions=list(range(work.cells)),
    )
    accountant.compute_budgets()
    cell, mean = zip(*((cell, metrics.mean) for cell, metrics in result), strict=True)
    return work.filled(cell, mean)


def quantiles(
    work: common.Work, *, cells: int, rows: int, threshold: float
) -> dict[str, NDArray[np.float64]]:
    """Return both quantiles and the share of each cell."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=common.EPSILON, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    above = (work.value > threshold).astype(float)
    levels = [100 * level for level in common.QUANTILES.values()]
    asked = (
        ([pipeline_dp.Metrics.PERCENTILE(level) for level in levels], work.value, 2.0),
        ([pipeline_dp.Metrics.MEAN], above, 1.0),
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    results = []
    for metrics, value, weight in asked:
        is_share = len(metrics) == 1
        params = pipeline_dp.AggregateParams(
            metrics=metrics,
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            min_value=0.0 if is_share else work.lower,
            max_value=1.0 if is_share else work.upper,
            max_partitions_contributed=cells,
            max_contributions_per_partition=rows,
            budget_weight=weight,
        )
        records = zip(work.user.tolist(), work.cell.tolist(), value.tolist(), strict=True)
        public = list(range(work.cells))
        results.append(engine.aggregate(records, params, extractors, public_partitions=public))
    accountant.compute_budgets()
    trees, shares = (dict(result) for result in results)
    found = {
        name: np.array([getattr(trees[c], f"percentile_{level:g}") for c in range(work.cells)])
        for name, level in zip(common.QUANTILES, levels, strict=True)
    }
    return found | {common.SHARE: np.array([shares[c].mean for c in range(work.cells)])}


if __name__ == "__main__":
    common.main(averages, quantiles=quantiles)
