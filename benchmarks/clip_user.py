"""CLIP-USER against a stable sort of its (cell, user) pairs, and its growth with them.

Run: python benchmarks/clip_user.py [users]. For 100 thousand users, 1000 cells and a million pairs
it prints the CPU seconds of a stable argsort of the pairs, of clip_user, and their ratio, for
users alike in degree and for a heavy tail of degrees, for losses of a cell from 1 (the run halts
early) to 0.01 (nearly everybody is suppressed nearly everywhere). Then the same for pairs over
three decades, and the exponent of the fitted power law. Fails if a ratio at a million pairs is
above 50, or an exponent above 1.25. Lines marked * are shown but not judged: a heavy tail with an E
above the error of publishing constants, U/2 + U²/8, where suppression serves nothing (ERRATA 4).
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from hexveil import Occupancy, theory

SPAN, DEGREE, RATIO_LIMIT, EXPONENT_LIMIT = 65.0, 10, 50.0, 1.25
EPSILONS = ("1", "0.2", "0.05", "0.01")


def best_of(work: Callable[[], object], repeats: int) -> float:
    """Return the least CPU seconds that `work` took."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def occupancy_of(users: int, *, tail: bool) -> Occupancy:
    """Draw users of ten cells each, or of a Pareto number of cells; geometric counts."""
    draw, cells = np.random.default_rng(users), max(10, users // 100)
    degree = np.full(users, DEGREE)
    if tail:
        degree = np.minimum((draw.pareto(1.2, users) * 2.5).astype(np.int64) + 1, cells)
    user = np.concatenate((np.repeat(np.arange(users), degree), draw.integers(0, users, cells)))
    cell = np.concatenate((draw.integers(0, cells, degree.sum()), np.arange(cells)))
    return Occupancy.from_coo(cell, user, draw.geometric(0.01, cell.size))


def sort_seconds(occupancy: Occupancy) -> float:
    """Return the seconds of a stable argsort of the pairs in random order."""
    pairs = np.random.default_rng(0).permutation(
        occupancy.cell * occupancy.n_users + occupancy.user
    )
    return best_of(lambda: np.argsort(pairs, kind="stable"), 5)


def measure(users: int, epsilon: str, *, tail: bool) -> tuple[int, float, float]:
    """Print a line; return pairs, seconds and the ratio to the sort, 0 where it is not judged."""
    occupancy = occupancy_of(users, tail=tail)
    sort = sort_seconds(occupancy)
    runs = []
    work = best_of(
        lambda: runs.append(theory.clip_user(occupancy, SPAN, epsilon)),
        2 if users > 20_000 else 5,
    )
    done = runs[-1]
    error = done.max_error
    assert not isinstance(error, dict)  # a sum of both statistics
    most = int(occupancy.cells_per_user.max())
    idle = tail and error > SPAN / 2 + SPAN**2 / 8
    suppressed = sum(stage.suppressed for stage in done.stages)
    print(
        f"{'tail' if tail else 'alike':<7}{occupancy.n_pairs:>9}{most:>7}{epsilon:>7}"
        f"{done.degradation:>6}{suppressed:>11}{sort:>9.4f}{work:>9.3f}{work / sort:>8.1f}"
        f"{' *' if idle else ''}",
        flush=True,
    )
    return occupancy.n_pairs, work, 0.0 if idle else work / sort


def main() -> int:
    """Print the tables; return 1 if a limit is missed."""
    users = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("degrees    pairs   most    eps     K suppressed   sort s   work s   ratio")
    worst = max(
        measure(users, epsilon, tail=tail)[2] for tail in (False, True) for epsilon in EPSILONS
    )
    print(f"largest ratio {worst:.1f}, allowed {RATIO_LIMIT:.0f}")
    steepest = 0.0
    for epsilon in ("1", "0.05"):
        points = [
            measure(round(users / 10**step), epsilon, tail=False)[:2] for step in (3, 2, 1, 0)
        ]
        pairs, seconds = np.log(np.array(points)).T
        exponent = float(np.polyfit(pairs, seconds, 1)[0])
        steepest = max(steepest, exponent)
        print(f"eps {epsilon}: seconds grow as pairs to the {exponent:.2f}")
    print(f"largest exponent {steepest:.2f}, allowed {EXPONENT_LIMIT}")
    return int(worst > RATIO_LIMIT or steepest > EXPONENT_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
