"""Neighbouring files, whose values alone differ, and what two runs on them left behind."""

import json
import re
import sqlite3
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attack import leak_canaries as canaries

EXTREME = {
    "low": 0.0, "high": 65.0, "far above": 1.7e308, "far below": -1.7e308, "tiny": 5e-324,
    "minus nothing": -0.0, "between two steps": 31.4159265,
}  # fmt: skip
"""Values of one user, in all its cells, in the bounds and far outside."""


def with_values(value, users=1):
    """Return the records, the values of the first users replaced."""
    records = canaries.table()
    ids = set(sorted(set(records["bus"].to_pylist()))[:users])
    column = [
        value if user in ids else old
        for user, old in zip(records["bus"].to_pylist(), records["speed"].to_pylist(), strict=True)
    ]
    place = records.column_names.index("speed")
    return records.set_column(place, "speed", pa.array(column, pa.float64()))


def all_at_random(seed):
    """Return the records with every value replaced: neighbours of neighbours."""
    records = canaries.table()
    values = np.random.default_rng(seed).normal(30, 40, len(records))
    place = records.column_names.index("speed")
    return records.set_column(place, "speed", pa.array(values))


_HIDDEN = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z"), "<time>"),
    (re.compile(r"[-+.\de]+ ± [-+.\de]+"), "<a private study>"),
    (re.compile(r'"(mae|standard_error)": [0-9.e+-]+'), "<a private study>"),
    (re.compile(r"\d+ good, \d+ caution,( \d+ cut off,)? \d+ noise"), "<grades>"),
    (
        re.compile(
            r"(True [a-z ]+ differ between cells by .*?|The noisy numbers show no difference .*?)"
            r"(numbers|\))\.",
            re.DOTALL,
        ),
        "<differences>",
    ),
    # Whether it stands there follows from noisy numbers.
    (re.compile(r"\s*(Warning )?One number for the whole map would do .*? from this map\."), ""),
    (re.compile(r'"warnings": \[.*?\]', re.DOTALL), "<differences>"),
)
ESTIMATED = ("typical_error", "between_cells", "grades", "beats_constant")
"""Fields of the manifest's accuracy that are computed from noisy numbers."""


def masked(text):
    """Return a text without hashes and times of the ledger's events, nor figures of a study."""
    for pattern, word in _HIDDEN:
        text = pattern.sub(word, text)
    return text


def public_of_manifest(path):
    """Return a manifest without its place in the chain and without estimates from noisy numbers."""
    found = json.loads(path.read_text("utf-8"))
    if found["ledger"]:
        found["ledger"] = {
            "entry": found["ledger"]["entry"],
            "chain": len(found["ledger"]["chain"]),
        }
    for component in found["components"]:
        for statement in component["accuracy"]:
            statement.update(dict.fromkeys(ESTIMATED))
    return found


def masked_prose(text):
    """Return a text for readers, masked; estimates move the ends of its lines."""
    return masked(" ".join(text.split()))


def size_without_estimates(path):
    """Return the bytes of a manifest, those of its estimates left out."""
    components = json.loads(path.read_text("utf-8"))["components"]
    accuracy = [statement for one in components for statement in one["accuracy"]]
    estimates = [statement[name] for statement in accuracy for name in ESTIMATED]
    return path.stat().st_size - sum(len(json.dumps(one, indent=2)) for one in estimates)


def public_of_table(path):
    """Return what a released table says but for what the noise made."""
    table = pq.read_table(path)
    noisy = ("_noisy", "_raw", "_low", "_high", "sd_bound95", "sd_quality")
    kept = [name for name in table.column_names if not name.endswith(noisy)]
    return table.schema, table.select(kept).to_pylist()


def book(path):
    """Return every table of a ledger but for times, hashes of the chain and noisy numbers.

    Of a noisy result the length is kept: a row is as long as was announced, whatever was drawn.
    """
    with closing(sqlite3.connect(path)) as found:
        events = found.execute(
            "SELECT entry, account, dataset, kind, request, body, units "
            "FROM hexveil_events ORDER BY entry"
        ).fetchall()
        sizes = "SELECT entry, length(row) FROM hexveil_journal ORDER BY entry"
        rest = [found.execute(sizes).fetchall()]
        names = ("balances", "plans")
        rest += [
            found.execute(f"SELECT * FROM hexveil_{one} ORDER BY 1, 2").fetchall() for one in names
        ]
    return [(*event[:5], masked(event[5] or ""), *event[6:]) for event in events], rest


def results(path):
    """Return the noisy result of each private stage, as its bytes stand in a ledger."""
    with closing(sqlite3.connect(path)) as found:
        return found.execute("SELECT entry, row FROM hexveil_journal ORDER BY entry").fetchall()


def put_key(ledger, key):
    """Put a holder's key beside a ledger, for its owner alone."""
    file = ledger.with_name(f"{ledger.name}.key")
    file.write_bytes(key)
    file.chmod(0o600)


def names(folder):
    """Return the names of all files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def public(heard, folder):
    """Return what a call let out, without the name of its folder and the ends of lines."""
    texts = (heard.out, heard.err)
    out, err = (masked_prose(text.replace(str(folder), "...")) for text in texts)
    return heard.code, out, err, heard.warned
