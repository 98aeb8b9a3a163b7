"""No misnamed, headerless or damaged source is quoted: not in a sentence, an error or a file.

The shapes: leak_shapes.py. In the suite 300 of them; with HEXVEIL_ATTACK=1 all 12,000.
"""

import traceback
from collections import Counter
from pathlib import Path

import pytest

import hexveil as hv
from attack import leak_canaries as canaries
from attack import leak_shapes as shapes
from examples import LONG
from hexveil.base.errors import HexveilError
from hexveil.config import Run
from hexveil.config.run_file_template import draft_run_file
from hexveil.records.sources.schema_preview import inspect_schema

pytestmark = pytest.mark.slow

MANY = 12_000 if LONG else 300
BATCH = MANY // 12
BATCHES = [range(start, start + BATCH) for start in range(0, MANY, BATCH)]
COMMANDS = (
    ("inspect", "--init"),
    ("inspect", "--init", "--user", "bus"),
    ("inspect", "--json"),
    ("plan", "--epsilon", "1"),
    ("release", "--epsilon", "1", "--url", "book.sqlite", "--dataset", "d",
    "--set", "ledger.budget=1",
     "--out", "map"),
    ("evaluate", "--counts"),
    ("as run file",),
    ("verify",),
    ("ledger show",),
    ("dossier",),
)  # fmt: skip
"""Calls of the command that are given a shape, in turns."""


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


RUN = """\
source = "{source}"
[columns]
{columns}
[values]
bounds = [0, 65]
[cells]
resolution = 6
timeslot = "none"
timezone = "Asia/Kolkata"
[select]
min_users = 1
"""


def arguments(command, shape, source):
    """Return the words of a command for a shape; its run file stands in the folder."""
    name, *more = command
    if name == "as run file":
        Path(source).replace("shape.toml")
        return "inspect", "shape.toml"
    if name == "evaluate":
        return name, *more, source, "--values", "normal:2,1", "--bounds", "0,9", "--trials", "2"
    if name in ("verify", "dossier"):
        Path("folder").mkdir()
        for file in ("manifest.json", "receipt.json", "cells.csv", "cells.parquet"):
            Path("folder", file).write_bytes(Path(source).read_bytes())
        return name, "folder"
    if name == "ledger show":
        return name, source
    if "--init" in more:
        return name, source, *more
    columns = "\n".join(f'{role} = "{name}"' for role, name in shapes.NAMED[shape.named].items())
    Path("run.toml").write_text(RUN.format(source=source, columns=columns), "utf-8")
    return name, "run.toml", *more


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch.start}-{batch.stop}")
def test_no_shape_is_quoted_by_a_command(tmp_path, monkeypatch, call, batch):
    """Every fourth shape by a command, in turns: output, logs, warnings, errors and files."""
    monkeypatch.setenv("HEXVEIL_DEBUG", "1")
    found = []
    for number in batch[:: 1 if LONG else 4]:
        shape = shapes.Shape.of(number)
        if shape.form != "text":
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        source, secret = shape.make(folder)
        words = arguments(COMMANDS[number // 4 % len(COMMANDS)], shape, source)
        before = set(folder.rglob("*"))
        heard = call(*words)
        texts = [heard.out, heard.err, *heard.logged, *heard.warned]
        errors = [canaries.in_error(error, secret.seen) for error in heard.errors]
        shown = any(map(secret.seen, texts)) or any(errors) or "Traceback" in heard.err
        found += [(shape, words, heard.err)] if shown else []
        found += [(shape, words, name) for name in left(folder, secret, before)]
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
