"""Releases as another processor makes them: planned, booked, drawn or shown again there.

python -m publishing.core_type_release LEDGER SOURCE GOAL...
"""

import argparse
import hashlib
import json

import hexveil as hv
from planning.core_type_plans import dataset, made


def released(ledger, source, goal):
    """Release for a goal; return what came of it."""
    book = hv.Ledger(ledger, dataset=goal, budget=1000)
    plan = made(source, goal)
    shown = hv.release(dataset(source), plan, ledger=book, accept_noise=True)
    noisy = {n: shown.table[n].to_pylist() for n in shown.table.column_names if "_noisy" in n}
    return {
        "planned": hashlib.sha256(plan.allocation.noise_scale_records.tobytes()).hexdigest(),
        "noisy": noisy,
        "epsilon": str(shown.epsilon),
        "replayed": shown.replayed,
        "spent": str(book.spent),
    }


def main():
    """Release for each goal, and print what came of it."""
    asked = argparse.ArgumentParser()
    asked.add_argument("ledger")
    asked.add_argument("source")
    asked.add_argument("goals", nargs="+")
    given = asked.parse_args()
    said = [released(given.ledger, given.source, goal) for goal in given.goals]
    print(json.dumps(said))  # noqa: T201  read by the test


if __name__ == "__main__":
    main()
