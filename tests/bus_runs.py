"""The run file of a table of buses: columns, bounds and a coarse grid, and a ledger."""

RUN = """\
source = "{source}"

[columns]
user = "bus"
value = "speed"
lat = "lat"
lon = "lon"
time = "time"

[values]
bounds = [0, 65]
value_unit = "km/h"
{values}
[cells]
resolution = 6
timeslot = "none"
{cells}
[plan]
epsilon = 1
{plan}
[release]
{release}
[ledger]
url = "ledger.sqlite"
dataset = "buses"
budget = {budget}
"""


def run_text(source="buses.parquet", *, values="", cells="", plan="", release="", budget=2):
    """Return the text of a run file, with further lines in the sections named."""
    sections = {"values": values, "cells": cells, "plan": plan, "release": release}
    lines = {name: f"{text}\n" if text else "" for name, text in sections.items()}
    return RUN.format(source=source, budget=budget, **lines)
