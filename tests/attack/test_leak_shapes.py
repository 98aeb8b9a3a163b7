"""No misnamed, headerless or damaged source is quoted: not in a sentence, an error or a file.

The shapes: leak_shapes.py. In the suite 300 of them; with HEXVEIL_ATTACK=1 all 12,000.
"""

import traceback
from collections import Counter

import pytest

import hexveil as hv
from attack import leak_canaries as canaries
from attack import leak_shapes as shapes
from attack.leak_runs import LONG
from hexveil.base.errors import HexveilError
from hexveil.config import Run
from hexveil.config.run_file_template import draft_run_file
from hexveil.records.sources.schema_preview import inspect_schema

pytestmark = pytest.mark.slow

MANY = 12_000 if LONG else 300
BATCH = MANY // 12
BATCHES = [range(start, start + BATCH) for start in range(0, MANY, BATCH)]


def attempts(shape, source):
    """Return the library's calls of a shape."""
    named = shapes.NAMED[shape.named]
    grid = hv.Cells(6, None) if "lat" in named or "location" in named else hv.Labels("line")
    more = {"bounds": (0, 65), "select": hv.Select(min_users=1), "max_bad_rows": 0.5}

    def read():
        return hv.read(source, **named, cells=grid, **more)

    def labels():
        return hv.read(source, user=named["user"], value=named["value"], cells=hv.Labels("ward"),
                       **more)  # fmt: skip

    def summed():
        return hv.from_sums(source, bounds=(0, 65), cells=hv.Labels("cell"))

    def begun():
        run = Run(source=[source] if isinstance(source, str) else ["memory"])
        return draft_run_file(run, inspect_schema(source))

    return [(read, labels, summed)[shape.number % 3], *([begun] if shape.number % 2 else [])]


def leaks(secret, call, heard):
    """Return what a call of the library let out, by where."""
    texts = {}
    try:
        made = call()
        texts["result"] = made if isinstance(made, str) else repr(made)
    except HexveilError as error:
        texts["traceback"] = "".join(traceback.format_exception(error))
        if canaries.in_error(error, secret.seen):
            texts["error"] = canaries.in_error(error, secret.seen)
    texts["output"] = "".join(heard())
    return [where for where, text in texts.items() if secret.seen(text)]


def left(folder, secret, before):
    """Return the files that were written and hold a token or have one in their name."""
    new = (path for path in folder.rglob("*") if path not in before)
    return [
        path.name
        for path in new
        if secret.seen(path.name)
        or (path.is_file() and secret.seen(path.read_bytes().decode("latin-1")))
    ]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch.start}-{batch.stop}")
def test_no_shape_is_quoted_by_the_library(tmp_path, monkeypatch, capfd, batch):
    """Read, looked at, or taken for sums: no text, error, file or output holds a token."""
    found = []
    for number in batch:
        shape = shapes.Shape.of(number)
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        source, secret = shape.make(tmp_path / str(number))
        before = set((tmp_path / str(number)).rglob("*"))
        for call in attempts(shape, source):
            found += [
                (shape, call.__name__, where) for where in leaks(secret, call, capfd.readouterr)
            ]
        found += [(shape, name) for name in left(tmp_path / str(number), secret, before)]
    assert found == []


def test_every_kind_of_shape_is_there():
    """Each format, name, header, code, damage, form and id occurs at least five times."""
    drawn = [shapes.Shape.of(number) for number in range(600)]
    kinds = {
        "form": set(shapes.FORMS), "style": shapes.STYLES, "header": shapes.HEADERS,
        "ending": shapes.ENDINGS, "code": shapes.CODES, "damage": shapes.DAMAGE,
        "ids": shapes.IDS, "named": shapes.NAMED,
    }  # fmt: skip
    for field, known in kinds.items():
        counts = Counter(getattr(shape, field) for shape in drawn)
        assert min(counts[kind] for kind in known) >= 5, field


def test_a_token_is_found(tmp_path):
    """A shape's own text is found out, so that an empty find means something."""
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        _, secret = shapes.Shape.of(number).make(tmp_path / str(number))
        for token in secret.tokens:
            assert secret.seen(f"x{token}y") == token
        assert secret.seen(str(secret.records)) is not None
        assert secret.seen("user: the source has no column 'bus'.") is None
