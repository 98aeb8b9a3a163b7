"""Blocks of pairs are packed from rows in any batches, and cut into pieces that Java can hold."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from hexveil.base.errors import HexveilError
from hexveil.model.public_metadata import ValueLattice

SCALE = ValueLattice.of((0, 10), "0.5")


@pytest.fixture
def blocks(monkeypatch):
    """Return the module, with pieces of a few bytes."""
    pytest.importorskip("pyspark")
    from hexveil.records.spark import blocks  # noqa: PLC0415  only where Spark is

    monkeypatch.setattr(blocks, "_PIECE_BYTES", 100)
    return blocks


def rows(seed=3):
    """Return pairs of three blocks of cells, sorted by block alone."""
    draw = np.random.default_rng(seed)
    cell, user = (a.ravel() for a in np.mgrid[0:9, 0:20])
    n = draw.integers(1, 9, cell.size)
    total = draw.integers(0, 20 * n + 1)
    order = draw.permutation(cell.size)
    order = order[np.argsort(cell[order] // 3, kind="stable")]
    block = (cell // 3).astype(np.int32)
    columns = {"block": block, "cell": cell, "user": user, "n": n, "total": total}
    return pa.table({name: column[order] for name, column in columns.items()})


def looked(pairs, sums, *, weight):
    """Return all of a block, and its cells' weights."""
    assert sums.squares is None
    return pairs.cell, pairs.user, pairs.n, sums.total, weight[pairs.cell]


def answers(blocks, batches):
    """Return what is found in blocks, one behind the other."""
    look = partial(looked, weight=np.arange(9) * 7)
    work = blocks.map_task("cells", 20, lambda: look, "sums")
    found = pa.Table.from_batches(work(iter(batches)))
    columns = [blocks.from_bytes(one) for one in found["found"].to_pylist()]
    whole = [np.concatenate(column) for column in zip(*columns, strict=True)]
    return found["block"].to_pylist(), found["digest"].to_pylist(), whole


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_pieces_are_the_block_whatever_the_batches(blocks, batch):
    """Rows in batches of any size, and pieces in batches of any size, give the same blocks."""
    table = rows()
    pack = blocks.pack_task("cells", SCALE, 0)
    pieces = list(pack(iter(table.to_batches(max_chunksize=batch))))
    assert max(len(one["packed"][0].as_py()) for one in pieces) == 100
    assert all(one.num_rows == 1 for one in pieces)
    together = pa.Table.from_batches(pieces).combine_chunks()
    numbers, digests, found = answers(blocks, together.to_batches(max_chunksize=batch))
    assert numbers == [0, 1, 2]
    assert len(set(digests)) == 3
    sorted_rows = table.sort_by([("cell", "ascending"), ("user", "ascending")])
    expected = {name: sorted_rows[name].to_numpy() for name in sorted_rows.column_names}
    cell = expected["cell"]
    of_block = (cell, expected["user"], expected["n"], expected["total"], cell * 7)
    for column, other in zip(found, of_block, strict=True):
        np.testing.assert_array_equal(column, other)
    whole = list(pack(iter([table.combine_chunks().to_batches()[0]])))
    assert answers(blocks, whole)[1] == digests


def test_pieces_in_another_order_are_refused(blocks):
    """A piece that is missing or misplaced is no block."""
    pieces = list(blocks.pack_task("cells", SCALE, 0)(iter(rows().to_batches())))
    assert answers(blocks, pieces)[0] == [0, 1, 2]
    pieces[1], pieces[2] = pieces[2], pieces[1]
    with pytest.raises(HexveilError, match="its cause is not shown"):
        answers(blocks, pieces)
    del pieces[1]
    with pytest.raises(HexveilError, match="its cause is not shown"):
        answers(blocks, pieces)
