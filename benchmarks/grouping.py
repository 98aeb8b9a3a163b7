"""BESTFIT of one million users against a stable sort of their counts.

Run: python benchmarks/grouping.py [users]. Prints, for several shapes of counts and caps, the
seconds of a stable argsort, of best_fit, and their ratio; fails if a ratio is above 10.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from hexveil import theory

LIMIT = 10.0


def best_of(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least seconds that `work` took."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def shapes(users: int) -> dict[str, np.ndarray]:
    """Return heavy-tailed counts, one per user."""
    draw = np.random.default_rng(7)
    return {
        "pareto 1.1": np.minimum(draw.pareto(1.1, users) * 10, 1e7).astype(np.int64) + 1,
        "pareto 1.5": (draw.pareto(1.5, users) * 20).astype(np.int64) + 1,
        "lognormal": draw.lognormal(3, 1.5, users).astype(np.int64) + 1,
        "zipf 1.5": np.minimum(draw.zipf(1.5, users), 10**6),
    }


def main() -> int:
    """Print the table; return 1 if BESTFIT is too slow anywhere."""
    users = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    worst = 0.0
    print(f"{'counts':<12}{'cap':<10}{'value':>8}{'sort s':>9}{'fit s':>9}{'ratio':>7}")
    for name, counts in shapes(users).items():
        sort = best_of(partial(np.argsort, counts, kind="stable"))
        caps = {
            "median": theory.median_cap(counts),
            "sqrt": theory.sqrt_cap(counts),
            "minimax": theory.minimax_cap(counts, 1),
            "5000": 5000,
        }
        for rule, cap in caps.items():
            fit = best_of(partial(theory.best_fit, counts, cap))
            worst = max(worst, fit / sort)
            print(f"{name:<12}{rule:<10}{cap:>8}{sort:>9.3f}{fit:>9.3f}{fit / sort:>7.1f}")
    print(f"largest ratio {worst:.1f}, allowed {LIMIT:.0f}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
