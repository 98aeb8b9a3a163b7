"""Descent of an objective of many numbers, by SciPy's L-BFGS-B with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.work_share import SEARCH, tell_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.base.arrays import Floats

    Objective = Callable[[Floats], tuple[float, Floats]]

_USUAL_ITERATIONS = 200
"""Iterations of a long descent, by which its share is told."""


@dataclass(frozen=True)
class StopRule:
    """The end of a descent, with SciPy's defaults.

    Near the minimum a line search compares values that differ only by rounding, so the number of
    evaluations depends on the processor. Where an evaluation is dear, limit evaluations as well as
    iterations.

    Attributes
    ----------
    iterations, evaluations : int
        Numbers after which no further iteration begins.
    trials : int
        Evaluations of one line search.
    gain : float
        Relative gain of one iteration, of a value of 1 or more, below which the descent ends.
    slope : float
        Largest slope at which it ends.
    """

    iterations: int = 15_000
    evaluations: int = 15_000
    trials: int = 20
    gain: float = 2.2204460492503131e-09
    slope: float = 1e-5

    def options(self) -> dict[str, float]:
        """Return the rule in SciPy's terms."""
        return {
            "maxiter": self.iterations,
            "maxfun": self.evaluations,
            "maxls": self.trials,
            "ftol": self.gain,
            "gtol": self.slope,
        }


def descend(
    objective: Objective, begin: Floats, reach: float, rule: StopRule
) -> tuple[Floats, float]:
    """Return the point that L-BFGS-B finds, and the objective there.

    Parameters
    ----------
    objective : callable
        From a point to the objective and its slope; it must not keep or change the point.
    begin : ndarray of float, shape (n,)
    reach : float
        How far each number may go from where it began.
    rule : StopRule
    """
    import scipy.optimize  # noqa: PLC0415  slow to import

    usual, done = min(rule.iterations, _USUAL_ITERATIONS), 0

    def tell(_: Floats) -> None:
        nonlocal done
        done += 1
        tell_share(SEARCH, min(done / usual, 1.0))

    # Here, as the linear algebra of SciPy may have been loaded only just now.
    with single_blas_thread():
        found = scipy.optimize.minimize(
            objective,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack((begin - reach, begin + reach), axis=1),
            callback=tell,
            options=rule.options(),
        )
    return np.asarray(found.x), float(found.fun)
