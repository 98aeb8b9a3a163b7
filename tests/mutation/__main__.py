"""Put small faults into the program, one at a time, and see which tests notice.

In the folder of tests: `python -m mutation hexveil/accounting hexveil/ledger --number 50 --seed 1`.
Each fault is tried with the tests that name its module, then with those beside them, then with the
rest of the quick suite (but not with --near), and with --all with the slow tests too; the first
failure ends it. Survivors are listed: each wants a small exact test, or is no fault at all.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from mutation.running import Runner, sample


def main() -> int:
    """Try a sample of mutants, and print what became of each."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", help="folders or files below src")
    parser.add_argument("--number", type=int, default=50, help="mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="which mutants")
    parser.add_argument("--jobs", type=int, default=2, help="mutants to try at once")
    parser.add_argument("--near", action="store_true", help="without tests far from the module")
    parser.add_argument("--all", action="store_true", help="with the slow tests, too")
    given = parser.parse_args()
    mutants = sample(given.folders, given.number, given.seed)
    runner, begun, verdicts = Runner(near=given.near, slow=given.all), time.monotonic(), Counter()
    if runner.fails_without_a_fault(mutants[0].path):
        sys.exit(f"the tests of {mutants[0].path} fail already, so that no mutant can be tried")
    with ThreadPoolExecutor(given.jobs) as pool:
        for mutant, verdict in zip(mutants, pool.map(runner.verdict, mutants), strict=True):
            verdicts[verdict] += 1
            print(f"{verdict:9}{mutant}", flush=True)  # noqa: T201  a script
    print(f"{len(mutants)} mutants in {time.monotonic() - begun:.0f} s: {dict(verdicts)}")  # noqa: T201  as above
    return int(verdicts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
