"""Cars on three roads, and a run that protects their presence, for tests of its commands."""

RUN = """\
source = "cars.csv"
[columns]
user = "car"
value = "speed"
[values]
bounds = [0, 100]
quantum = 0.1
value_unit = "km/h"
[cells]
labels = ["road"]
values = ["A4", "A8", "B10"]
[privacy]
protect = "presence"
fleet = 400
[plan]
epsilon = 2
[release]
out = "map"
[ledger]
url = "ledger.sqlite"
dataset = "cars"
budget = 5
"""
CANARY = "canary-4711"
ROW = f"{CANARY},A4,77.7\n"
SEVERAL = "--value speed --value load"
CACHED = "--set read.cache=kept --set read.version=1"


def records(n_cars=300):
    """Return records of so many cars, three each."""
    lines = [f"car{i},{('A4', 'A8', 'B10')[i % 3]},{20 + i % 50}\n" for i in range(n_cars)] * 3
    return "car,road,speed\n" + "".join(lines)


def with_load(text):
    """Return records with a second value column, which every other row lacks."""
    first, *rows = text.splitlines()
    return "\n".join([f"{first},load", *(f"{row},{'4' * (k % 2)}" for k, row in enumerate(rows))])
