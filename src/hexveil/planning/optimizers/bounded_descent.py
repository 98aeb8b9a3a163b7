"""L-BFGS-B of SciPy, without loading all of SciPy's optimizers.

A plan of a small map takes a few thousand looks at an objective of some dozen numbers. Loading
`scipy.optimize` takes longer than all of them, and its checks of arguments as long as half of them.
So its compiled step is called by itself, in the loop that SciPy has around it, where the installed
version is one whose results were compared bit by bit (tests/planning/test_bounded_descent.py);
with any other version `scipy.optimize.minimize` is called.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.work_share import SEARCH, tell_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.base.arrays import Floats

    Objective = Callable[[Floats], tuple[float, Floats]]

COMPARED_VERSIONS = ("1.17.",)
"""Versions of SciPy whose compiled step takes the arguments below."""
_STEP = "scipy.optimize._lbfgsb"
_MEMORY = 10
_BOUNDED = 2
"""SciPy's code for a number that is bounded on both sides."""
_USUAL_ITERATIONS = 200
"""Iterations of a long descent, by which its share is told."""
_NEW_ITERATION, _EVALUATE, _STOP = 1, 3, 5
_TOO_MANY_ITERATIONS, _TOO_MANY_EVALUATIONS = 504, 502


@dataclass(frozen=True)
class StopRule:
    """The end of a descent, with SciPy's defaults.

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
    step = _compiled_step()
    if step is None:
        import scipy.optimize  # noqa: F401, PLC0415  slow to import
    # Here, as the linear algebra of SciPy may have been loaded only just now.
    with single_blas_thread():
        if step is None:
            return _descend_publicly(objective, begin, reach, rule)
        return _descend_directly(step, objective, begin, reach, rule)


def _descend_publicly(
    objective: Objective, begin: Floats, reach: float, rule: StopRule
) -> tuple[Floats, float]:
    import scipy.optimize  # noqa: PLC0415  slow to import

    found = scipy.optimize.minimize(
        objective,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack((begin - reach, begin + reach), axis=1),
        options=rule.options(),
    )
    return np.asarray(found.x), float(found.fun)


def _descend_directly(
    step: Callable[..., None], objective: Objective, begin: Floats, reach: float, rule: StopRule
) -> tuple[Floats, float]:
    n, m = begin.size, _MEMORY
    low, high, kind = begin - reach, begin + reach, np.full(n, _BOUNDED, np.int32)
    gain = rule.gain / np.finfo(float).eps
    work = np.zeros(2 * m * n + 5 * n + 11 * m * m + 8 * m), np.zeros(3 * n, np.int32)
    task, line_task = np.zeros(2, np.int32), np.zeros(2, np.int32)
    kept = np.zeros(4, np.int32), np.zeros(44, np.int32), np.zeros(29)
    x = np.array(begin, dtype=np.float64)
    # SciPy evaluates the beginning before its loop, and never a point twice in a row.
    seen, evaluations, iterations = x.copy(), 1, 0
    known = objective(seen)
    value, slope = 0.0, np.zeros(n)
    while True:
        step(
            m, x, low, high, kind, value, slope, gain, rule.slope, *work, task, *kept,
            rule.trials, line_task,
        )  # fmt: skip
        if task[0] == _EVALUATE:
            if not np.array_equal(x, seen):
                seen, evaluations = x.copy(), evaluations + 1
                known = objective(seen)
            # The step writes into the slope that it is given.
            value, slope = known[0], known[1].astype(np.float64)
        elif task[0] == _NEW_ITERATION:
            iterations += 1
            if iterations >= rule.iterations:
                task[:] = _STOP, _TOO_MANY_ITERATIONS
            elif evaluations > rule.evaluations:
                task[:] = _STOP, _TOO_MANY_EVALUATIONS
            tell_share(SEARCH, min(iterations / min(rule.iterations, _USUAL_ITERATIONS), 1.0))
        else:
            return x, float(value)


@cache
def _compiled_step() -> Callable[..., None] | None:
    """Return SciPy's compiled step; None where it may take other arguments."""
    import scipy  # noqa: PLC0415  importing hexveil must stay light

    if not scipy.__version__.startswith(COMPARED_VERSIONS):
        return None
    module: Any = sys.modules.get(_STEP)
    if module is None:
        # Found by its file: a usual import would load the package around it first.
        folder = str(Path(str(scipy.__file__)).parent / "optimize")
        spec = PathFinder.find_spec(_STEP, [folder])
        if spec is None or spec.loader is None:
            return None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    step: Callable[..., None] | None = getattr(module, "setulb", None)
    return step
