"""Simulating a city into a Parquet file, beside writing the same rows from memory.

Run: python benchmarks/simulate.py [users days]. For a fix every 20 and every 60 seconds prints the
processor seconds, of all threads, of writing the city's records as they are made, and of writing
the same record batches, made before, with the same pyarrow writer; then the largest memory of a
process that simulates 1,000 buses for 30 days. Fails if a ratio is above 5, or the memory above
500 MB.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet

from hexveil.simulation.city import City

ALLOWED = 5.0
MEGABYTES = 500.0
LARGE = """
import resource, sys
from hexveil.simulation.city import City
rows = City(users=1000, days=30, seed=1).write(sys.argv[1])
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least processor seconds that `work` took."""
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def compare(city: City, folder: Path) -> float:
    """Print a line for a city, and return how many times the floor it costs."""
    batches = list(city.batches())
    rows = sum(batch.num_rows for batch in batches)

    def from_memory() -> None:
        path = folder / "floor.parquet"
        with pyarrow.parquet.ParquetWriter(path, city.schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)

    def simulated() -> None:
        again = City(city.users, city.days, city.seed, city.start, city.interval)
        again.write(folder / "city.parquet")

    floor, work = seconds(from_memory), seconds(simulated)
    print(f"{city.interval:>8}{rows:>12,}{floor:>12.2f}{work:>12.2f}{work / floor:>8.2f}")
    return work / floor


def large(folder: Path) -> float:
    """Print the memory of a large city, made in a process of its own, and return megabytes."""
    command = [sys.executable, "-c", LARGE, str(folder / "large.parquet")]
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows, peak = done.stdout.split()
    spent = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    print(
        f"1,000 buses, 30 days: {int(rows):,} records, {spent:.1f} s, {float(peak):.0f} MB at most"
    )
    return float(peak)


def main() -> int:
    """Print the table; return 1 if a ratio or the memory is too large."""
    users, days = (int(text) for text in (sys.argv[1:3] if len(sys.argv) > 2 else ("300", "3")))
    print(f"{users} buses, {days} days; allowed: {ALLOWED:g} times, {MEGABYTES:g} MB")
    print(f"{'interval':>8}{'records':>12}{'write s':>12}{'simulate s':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory(prefix="hexveil-bench-") as name:
        cities = [City(users, days, seed=1, interval=interval) for interval in (20, 60)]
        ratios = [compare(city, Path(name)) for city in cities]
        peak = large(Path(name))
    return int(max(ratios) > ALLOWED or peak > MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
