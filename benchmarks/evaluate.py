"""Simulating all mechanisms at 16 values of epsilon against drawing what they need.

Run: python benchmarks/evaluate.py [trials]. On the 217-user counts of ../shared/data, or counts
made alike, prints processor seconds of hv.evaluate: with values fixed, beside drawing as many
Laplace samples as there are releases; with values redrawn, beside drawing the values. Fails if a
ratio is above 30 or 5.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hexveil as hv

FIXED, REDRAWN = 30.0, 5.0
FILE = Path(__file__).resolve().parents[2] / "shared" / "data" / "itms_like_counts.json"
SPEEDS = hv.Normal(20.66769, 10.730)
EPSILONS = np.geomspace(0.1, 4.0, 16).round(3).tolist()
MECHANISMS = (
    hv.Baseline(),
    hv.ArrayAveraging(),
    hv.OptArrayAveraging(),
    hv.Levy(),
    hv.FixedQuantile(0.1, 0.9),
    hv.OptimizedQuantile(),
    hv.OptimalClipping(),
    hv.AKMV(),
)
BLOCK = 1_000_000


def counts() -> np.ndarray:
    """Return the counts of 217 users, 17,000 samples or so."""
    if FILE.is_file():
        return np.array(json.loads(FILE.read_text("utf-8")))
    drawn = np.random.default_rng(7).lognormal(3.8, 1.1, 217)
    return np.clip(drawn, 1, 417).astype(np.int64)


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least processor seconds that `work` took."""
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def draw_noise(trials: int) -> None:
    """Draw one Laplace sample per release."""
    generator = np.random.default_rng(1)
    for _ in range(len(MECHANISMS) * len(EPSILONS)):
        generator.laplace(0.0, 1.0, trials)


def draw_values(trials: int, total: int) -> None:
    """Draw the samples of every trial, in blocks."""
    generator = np.random.default_rng(1)
    step = max(1, BLOCK // total)
    for start in range(0, trials, step):
        generator.normal(SPEEDS.mean, SPEEDS.sd, (min(step, trials - start), total))


def main() -> int:
    """Print the table; return 1 if a ratio is too large."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    m = counts()
    means = np.random.default_rng(3).normal(SPEEDS.mean, 3.0, m.size).clip(0, 65)
    given = {"counts": m, "bounds": (0, 65), "epsilons": EPSILONS, "trials": trials}
    rows = (
        (
            "fixed",
            seconds(lambda: draw_noise(trials)),
            seconds(lambda: hv.evaluate(MECHANISMS, **given, user_means=means)),
            FIXED,
        ),
        (
            "redrawn",
            seconds(lambda: draw_values(trials, int(m.sum())), 2),
            seconds(lambda: hv.evaluate(MECHANISMS, **given, values=SPEEDS), 1),
            REDRAWN,
        ),
    )
    print(f"{m.size} users, {m.sum()} samples, {len(MECHANISMS)} mechanisms, {trials} trials")
    print(f"{'values':<10}{'draw s':>9}{'evaluate s':>12}{'ratio':>7}{'allowed':>9}")
    for name, floor, work, limit in rows:
        print(f"{name:<10}{floor:>9.2f}{work:>12.2f}{work / floor:>7.1f}{limit:>9.0f}")
    return int(any(work > limit * floor for _, floor, work, limit in rows))


if __name__ == "__main__":
    sys.exit(main())
