"""Put small faults into the program, one at a time, and see which tests notice.

In the folder of tests: `python -m mutation hexveil/accounting hexveil/ledger --number 50 --seed 1`.
A fault is tried with the quick tests that reach its line: those of the module's own test file and
its examples, then those of files that name the module, then those beside them, then all others.
With --near only the nearest few files of the first three groups are tried, which is quicker. The
first failure ends it. Survivors are listed: each wants a small exact test, or is no fault at all.
With --slow the slow tests are run instead, and with --among only mutants that survived in the
output of an earlier run.
"""

import argparse
import sys
import time
from pathlib import Path

import pytest

from mutation.running import AROUND, OPTIONS, QUICK, ROOT, SLOW, SOURCE, TESTS, Campaign, sample


def main() -> int:
    """Try a sample of mutants, and print what became of each."""
    parser = argparse.ArgumentParser(prog="mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", help="folders or files below src")
    parser.add_argument("--number", type=int, default=50, help="mutants to try in each")
    parser.add_argument("--seed", type=int, default=1, help="which mutants")
    parser.add_argument("--tests", nargs="+", default=[str(TESTS)], help="test files or folders")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of tests per mutant and test file"
    )
    parser.add_argument("--near", type=int, help="no more than so many test files per group")
    parser.add_argument("--slow", action="store_true", help="with the slow tests alone")
    parser.add_argument("--among", type=Path, help="an earlier output: survivors alone")
    given = parser.parse_args()
    mutants = [
        mutant for folder in given.folders for mutant in sample(folder, given.number, given.seed)
    ]
    if given.among:
        lines = given.among.read_text(encoding="utf-8").splitlines()
        survivors = {line.rpartition("  [")[0] for line in lines if line.startswith("survived")}
        mutants = [mutant for mutant in mutants if f"{'survived':9}{mutant}" in survivors]
    campaign = Campaign(mutants, near=given.near, seconds=given.seconds)
    ignored = [f"--ignore={ROOT / place}" for place in AROUND]
    marked = ["-m", SLOW if given.slow else QUICK]
    begun = time.monotonic()
    examples = [str(SOURCE / folder) for folder in given.folders]
    arguments = [*OPTIONS, *marked, *ignored, *given.tests, *examples]
    status = pytest.main(arguments, plugins=[campaign])
    print(f"{len(mutants)} mutants in {time.monotonic() - begun:.0f} s: {dict(campaign.verdicts)}")  # noqa: T201  a script
    return int(status or campaign.verdicts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
