"""Averages by pipeline-dp on its local backend, which bounds a user's contributions itself."""

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


if __name__ == "__main__":
    common.main(averages)
