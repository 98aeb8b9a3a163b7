"""L-BFGS-B by its compiled step is SciPy's own, bit by bit."""

import subprocess
import sys

import numpy as np
import pytest
import scipy

from hexveil.planning.optimizers import bounded_descent
from hexveil.planning.optimizers.bounded_descent import COMPARED_VERSIONS, StopRule, descend


def rosenbrock(x):
    """Return the objective and its slope: a curved valley, which takes many line searches."""
    low, high = x[:-1], x[1:]
    slope = np.zeros_like(x)
    slope[:-1] = -400.0 * low * (high - low**2) - 2.0 * (1.0 - low)
    slope[1:] += 200.0 * (high - low**2)
    return float((100.0 * (high - low**2) ** 2 + (1.0 - low) ** 2).sum()), slope


def rough(x):
    """Return an objective with kinks, where line searches fail."""
    return float(np.abs(x - 0.3).sum()), np.sign(x - 0.3)


def test_this_scipy_is_one_that_was_compared():
    """Another version is slower, not wrong: compare it by this file, and add it."""
    assert scipy.__version__.startswith(COMPARED_VERSIONS)
    assert bounded_descent._compiled_step() is not None


@pytest.mark.parametrize("objective", [rosenbrock, rough])
@pytest.mark.parametrize("reach", [30.0, 0.4])
@pytest.mark.parametrize(
    "rule", [StopRule(), StopRule(7), StopRule(evaluations=9), StopRule(trials=2, gain=1e-3)]
)
def test_results_are_those_of_minimize(objective, reach, rule):
    """The same points are evaluated, and the same one is returned, with every end."""
    begin = np.random.default_rng(5).normal(size=6)
    visited = {}
    for version in (COMPARED_VERSIONS, ()):
        trace = []

        def watched(x, trace=trace):
            trace.append(x.copy())
            return objective(x)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bounded_descent, "COMPARED_VERSIONS", version)
            bounded_descent._compiled_step.cache_clear()
            found, value = descend(watched, begin.copy(), reach, rule)
        bounded_descent._compiled_step.cache_clear()
        visited[version] = [*trace, found, np.array([value])]
    for direct, public in zip(*visited.values(), strict=True):
        assert np.array_equal(direct, public)


@pytest.mark.slow
def test_the_step_loads_without_the_package_around_it_which_loads_after_it():
    """A process that only plans never loads scipy.optimize; one that does later still can."""
    code = (
        "import sys; from hexveil.planning.optimizers import bounded_descent as b;"
        "print(b._compiled_step() is not None, 'scipy.optimize' in sys.modules);"
        "import scipy.optimize as o; print(o.minimize(lambda x: float(x @ x), [1.0, 2.0]).success)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert said.stdout.split() == ["True", "False", "True"]
