"""README.txt of a release: the privacy statement and the columns, in plain words."""

from __future__ import annotations

import textwrap
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.publishing.prose import clean
from hexveil.publishing.smoothed import quality
from hexveil.report import cutting
from hexveil.report.facts import headed, up_to_digits

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH = 92
GUARDED = (
    "; a label that begins with =, +, -, @, a tab or a line break has one apostrophe more before "
    "it here, so that no spreadsheet takes it for a formula"
)
SPEAK_OF = (
    "Bounds and intervals both speak of the average of these records, not of traffic: who was not "
    "recorded is in neither. A bound holds for every data set, with the stated chance; an "
    "interval, which only smoothed estimates have, holds by a model, on average over cells."
)
GEOMETRY = "outline of the hexagon (WKB, longitude and latitude), in cells.parquet only"
FILES = {
    "cells.parquet": "a row per cell, with geometry (GeoParquet)",
    "cells.csv": "the same rows as text",
    "cells.geojson": "the same cells for mapping programs",
    "report.html": "a page with map and table; open it in any browser, it needs no network",
    "manifest.json": "what is guaranteed, for machines",
    "README.txt": "this text",
    "receipt.json": "checksums of these files, and the release's place in the ledger; "
    "hexveil verify checks them",
}


def readme(table: pa.Table, manifest: dict[str, Any], *, mapped: bool) -> str:
    """Return the text of README.txt."""
    data, guarantee = manifest["dataset"], manifest["guarantee"]
    unit = f" ({clean(data['value_unit'])})" if data["value_unit"] else ""
    cells = "1 cell" if table.num_rows == 1 else f"{table.num_rows} cells"
    head = headed(manifest["plan"]["statistics"], clean(data["value"]))
    blocks = [
        f"{head}{unit} of {clean(data['name'])}, {cells}",
        "WHAT IS GUARANTEED",
        *(_wrap(sentence) for sentence in _statement(guarantee, manifest["losses"])),
        *_steps(manifest),
        "HOW GOOD IT IS",
        *(_wrap(sentence) for sentence in _goodness(table, manifest)),
        "FILES",
        "\n".join(_wrap(f"{name}: {text}", hanging=True) for name, text in _files(table, mapped)),
    ]
    if "hexagon" in table.column_names and not mapped:
        blocks.append(_wrap("cells.geojson would be larger than 50 MB; use cells.parquet."))
    columns = [_column(field) for field in table.schema]
    if "hexagon" in table.column_names:
        columns.append(f"geometry: {GEOMETRY}")
    blocks += ["COLUMNS", "\n".join(_wrap(line, hanging=True) for line in columns)]
    return "\n\n".join(blocks) + "\n"


def _statement(guarantee: dict[str, Any], losses: dict[str, Any]) -> list[str]:
    return [
        *_promise(guarantee, losses),
        f"Neighbouring data: {guarantee['neighbours']}.",
        guarantee["not_protected"],
        *guarantee["assumptions"],
    ]


def _promise(guarantee: dict[str, Any], losses: dict[str, Any]) -> list[str]:
    """Return what the release changes, and how the loss is spread over units."""
    unit = guarantee["unit"]
    if guarantee["epsilon_spent"] == "0":
        return [
            f"{guarantee['promise']} Every published number is a constant, at no cost (epsilon 0)."
        ]
    spared = losses["at_zero"]
    spread = (
        f"This is pure differential privacy at epsilon {guarantee['epsilon_spent']}, the loss of "
        f"the most exposed of {losses['users']} {unit}s. 99 percent of them lose at most "
        f"{_up(losses['p99'])}, 90 percent {_up(losses['p90'])}, half {_up(losses['median'])}; the "
        f"average is {_up(losses['mean'])}{f', and {spared} lose nothing' if spared else ''}. "
        "Counting cells would claim epsilon "
        f"{_up(float(Fraction(guarantee['composed_epsilon'])))}."
    )
    return [guarantee["promise"], spread]


def _goodness(table: pa.Table, manifest: dict[str, Any]) -> list[str]:
    """Return how good the numbers are, from public facts and the noisy numbers alone."""
    plan, cells = manifest["plan"], table.num_rows
    said = [SPEAK_OF]
    if plan["statistics"][0] == "mean":
        better = plan["cells_better_than_constant"]
        said.append(
            f"By the plan, {better:,} of {cells:,} cells say more than one constant for all would."
        )
    said += cutting.cut_off(manifest["cut_off"], cells)
    for one in manifest["smoothing"]:
        said.append(f"Smoothed estimates, {one['statistic']}: {quality(one, cells)}")
        said.append(f"Their model: {one['model']}")
    return said


def _steps(manifest: dict[str, Any]) -> list[str]:
    """Return what was cut under a private interval, step by step, and what that leaves open."""
    steps, unit = manifest["plan"]["private_steps"], clean(manifest["dataset"]["value_unit"])
    if cutting.way(steps) is None:
        return []

    def amount(number: float) -> str:
        return f"{number:.4g} {unit}".strip()

    told = "\n".join(_wrap(f"- {one}", hanging=True) for one in cutting.told(steps, amount))
    about = (
        f"Bias and bound are about {cutting.cut(steps, amount)}; how far these are from the "
        "averages of all records is not bounded."
    )
    return ["PRIVATE STEPS, EACH WITH ITS PRICE FOR WHOM IT COSTS MOST", told, _wrap(about)]


def _up(number: float) -> str:
    return up_to_digits(number, 4)


def _files(table: pa.Table, mapped: bool) -> list[tuple[str, str]]:
    if "hexagon" in table.column_names:
        return [(name, text) for name, text in FILES.items() if mapped or name != "cells.geojson"]
    files = FILES | {"cells.parquet": "a row per cell", "cells.csv": FILES["cells.csv"] + GUARDED}
    return [(name, text) for name, text in files.items() if name != "cells.geojson"]


def _column(field: pa.Field) -> str:
    unit = clean((field.metadata or {}).get(b"unit", b"").decode())
    measured = f" [{unit}]" if unit else ""
    return f"{clean(field.name)}{measured}: {(field.metadata or {})[b'description'].decode()}"


def _wrap(text: str, *, hanging: bool = False) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="    " if hanging else "")
