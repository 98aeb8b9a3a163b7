"""What two engines must agree on, and how it is asked of both."""

import pyarrow as pa

from hexveil import HexveilError

PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"
"""Said by Spark about a pandas that hexveil does not use with it."""


def told(dataset):
    """Return all that a data set holds, as plain values."""
    facts, sums, units = dataset.public, dataset.sums, dataset.units
    o, cells = facts.occupancy, facts.cells
    return {
        "rules": list(facts.rules.items()),
        "identity": facts.identity,
        "scale": facts.lattice,
        "unit": (facts.privacy_unit, facts.value, facts.value_unit),
        "pairs": [a.tolist() for a in (o.cell, o.user, o.n)],
        "sizes": (o.n_cells, o.n_users),
        "hexagons": None if cells.hexagon is None else cells.hexagon.tolist(),
        "slots": None if cells.slot is None else cells.slot.tolist(),
        "labels": cells.labels,
        "totals": sums.total.tolist(),
        "squares": None if sums.total_sq is None else sums.total_sq.tolist(),
        "ids": units.ids(),
        "periods": units.periods(),
    }


def pairs_of(dataset):
    """Return the numbers of each pair at hand by its labels, and its id."""
    cells, ids = list(zip(*dataset.public.cells.labels.values(), strict=True)), dataset.units.ids()
    pairs, sums = dataset.occupancy, dataset.sums
    columns = (pairs.cell, pairs.user, pairs.n, sums.total, sums.total_sq)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(*cells[cell], ids[user].decode()): tuple(rest) for cell, user, *rest in rows}


PRIVATE = ("totals", "squares")
"""What of this depends on values."""


def public(told):
    """Return what may be known of a reading, or its refusal."""
    if isinstance(told, tuple):
        return told
    return {name: part for name, part in told.items() if name not in PRIVATE}


def outcome(read, source, **arguments):
    """Return what a reading tells, or the kind and the sentence of its refusal."""
    try:
        return told(read(source, **arguments))
    except HexveilError as error:
        refusal = error
    assert refusal.__cause__ is None
    return type(refusal), str(refusal)


def agree(read, source, spark, frame=None, **arguments):
    """Assert that both engines tell the same of a source; return what they tell.

    Parameters
    ----------
    frame : DataFrame, optional
        The same records, for Spark; of a table in memory one is made.
    """
    one = outcome(read, source, **arguments)
    if frame is None and isinstance(source, pa.Table):
        frame = spark.createDataFrame(source)
    other = outcome(read, source if frame is None else frame, engine=spark, **arguments)
    if frame is not None and isinstance(other, dict):
        assert other["identity"]["source"] == "Spark DataFrame"
        other["identity"] = other["identity"] | {"source": one["identity"]["source"]}
    assert other == one
    return one
