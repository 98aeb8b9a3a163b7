"""No id and no value leaves the program but through the noise: canaries in, and a search.

Canaries and where they are looked for: leak_canaries.py; the calls: leak_runs.py; what is wrong
with the records: leak_cases.py.
"""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import hexveil as hv
from attack import leak_canaries as canaries
from attack import leak_neighbours as near
from attack.leak_cases import BAD, RELEASED, with_broken_ids
from attack.leak_runs import READ, READING, STORY, commands, stand
from examples import LONG
from hexveil.base import scratch
from hexveil.base.errors import BudgetError, HexveilError, InputError
from hexveil.base.scratch import MARKER
from hexveil.cli import app as cli
from hexveil.cli import shared_steps
from hexveil.ledger import Ledger
from hexveil.mechanisms import noise
from hexveil.publishing import folder as folders
from hexveil.records.duckdb.session import Session

SIMULATED = ("--values", "normal:2,1", "--bounds", "0,9")
NO_RECORDS = {"demo", "help", "simulate"}
"""Commands that are given no records of one's own."""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Stand in a folder of canaries; return it and the folder of temporary files."""
    return stand(tmp_path, monkeypatch)


def inputs(here):
    """Return the files that were there before any call."""
    return set(here.rglob("*"))


def left(tmp):
    """Return what is left of temporary files, but for the note in the scratch folder."""
    root = scratch.place()
    assert root.parent == tmp
    return [one for one in tmp.rglob("*") if one not in (root, root / MARKER)]


def clean(here, tmp, leave):
    """Assert that no file but those of before holds a canary, and that none is left over."""
    assert canaries.in_folder(here, leave) == []
    assert left(tmp) == []
    assert [one for one in here.rglob("*") if ".partial-" in one.name] == []


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "json", "jsonl", "parquet"])
def test_the_search_finds_canaries(tmp_path, kind):
    """Records in every format, packed or not, are found out, so an empty find means something."""
    canaries.write(tmp_path / f"records.{kind}", canaries.table())
    assert canaries.in_folder(tmp_path) == [f"records.{kind}"]
    ids = canaries.table()["bus"].to_pylist()
    for name, packed in {
        "wide": ids[0].encode("utf-16-le"),
        "hex": ids[0].encode().hex().encode(),
        "sums": pa.array(canaries.WHOLE[-9:]).buffers()[1].to_pybytes(),
        "means": pa.array(canaries.DERIVED).buffers()[1].to_pybytes(),
    }.items():
        (tmp_path / name).write_bytes(b"\0" + packed)
        assert name in canaries.in_folder(tmp_path)


def test_an_error_is_searched_to_its_end():
    """What hangs on an error as context, argument or attribute is found."""

    def quoting():
        try:
            raise ValueError(canaries.STEM)
        except ValueError:
            raise InputError("nothing to see.") from None

    with pytest.raises(InputError) as caught:
        quoting()
    assert canaries.in_error(caught.value) == canaries.STEM


def test_every_command_has_a_case():
    """A new command without a call in the story fails here, so that none goes untried."""
    # The pages of the studio are read in tests/cli/test_studio.py.
    assert {words[0] for words in STORY} == commands() - {"demo", "help", "studio"}
    assert set(READ) == {name for name in commands() - NO_RECORDS if takes_records(name)}


def takes_records(name):
    """Return whether a command has the option that names records."""
    context = cli.click.Context(cli.app)
    if name not in cli.app.list_commands(context):  # of a group
        return False
    return any(one.name == "source" for one in cli.app.get_command(context, name).params)


@pytest.mark.slow
def test_no_command_shows_a_canary(places, call):
    """Good records through all commands: stdout, stderr, logs at debug, warnings and files."""
    here, tmp = places
    before = inputs(here)
    for arguments in STORY:
        heard = call(*arguments)
        assert heard.code == 0, (arguments, heard.err)
        assert heard.leak() is None, arguments
        assert left(tmp) == [], arguments
    clean(here, tmp, before)


STUDIES = {"evaluate": (), "reproduce": ("--out", "study")}
"""Studies of own values, and where they write files."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "out"), STUDIES.items(), ids=STUDIES)
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_studies_of_own_values_are_stamped(places, call, name, out, more):
    """What is printed and each file of own values says PRIVATE, and is its owner's alone."""
    here, _ = places
    heard = call(*READ[name], *out, *more)
    assert (heard.code, heard.leak()) == (0, None), heard.err
    assert "PRIVATE: " in heard.out[:40]
    stamped = list(here.glob("study/**/PRIVATE-*"))
    assert {path.suffix for path in stamped} == ({".csv", ".png", ".svg"} if out else set())
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in stamped)
    texts = [path.read_text() for path in stamped if path.suffix == ".csv"]
    assert all(text.startswith("# PRIVATE: ") for text in texts)
    assert not list(here.glob("study/**/[!P]*wc-fig2.*")), "a file of values has no stamp"


BEGUN = (*READ["inspect"], "--init")
CASES = BAD | RELEASED


def others(case):
    """Return further calls that bad records are tried on; a run file is begun for each."""
    if case in RELEASED:
        return ()
    names = [name for name in READ if name != "release"]
    turn = list(BAD).index(case) % len(names)
    return BEGUN, *(READ[name] for name in (names if LONG else names[turn : turn + 1]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_bad_input_shows_a_canary_or_a_value(tmp_path, monkeypatch, call, key, case):
    """Whatever is wrong with records, no command that reads them says or keeps one of them.

    Neighbours are refused in the same words. In the short form a case is tried on release and on
    one of the others, which take turns; those that only a release can meet on release alone.
    Whatever is wrong, `inspect --init` may begin a run file, which holds no record either.
    HEXVEIL_DEBUG is set: an error that nobody foresaw would be shown whole.
    """
    monkeypatch.setenv("HEXVEIL_DEBUG", "1")
    (spoil, options, codes), said = CASES[case], []
    for side, records in (("one", canaries.table()), ("other", near.all_at_random(5))):
        (tmp_path / side).mkdir()
        here, tmp = stand(tmp_path / side, monkeypatch, records)
        near.put_key(here / "ledger.sqlite", key)
        more, before = spoil(here, records), inputs(here)
        for arguments in (READ["release"], *(others(case) if side == "one" else ())):
            heard = call(*arguments, *more, *options)
            assert heard.code in ((0, 2) if arguments is BEGUN else codes), (arguments, heard.err)
            assert heard.leak() is None, arguments
            assert "Traceback" not in heard.err
            if arguments is READ["release"]:
                said.append((*near.public(heard, tmp_path / side), near.names(here)))
        clean(here, tmp, before)
    # Damage hits other bytes of another file.
    assert said[0] == said[1] or case == "parquet damaged"


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "records"),
        ("dossier", "records"),
        ("ledger show", "records/manifest.json"),
        ("ledger verify", "run.toml", "--receipt", "records"),
        ("ledger history", "records/receipt.json"),
        ("ledger init", "run.toml", "--key", "records/manifest.json"),
        ("evaluate", "--counts", "records/counts.json", *SIMULATED),
        ("evaluate", "--counts", "records/counts.csv", *SIMULATED),
        ("evaluate", "--counts", "buses.parquet", *SIMULATED),
        ("reproduce", "comp:fig3", "--trials", "2", "--records", "records"),
        ("reproduce", "comp:fig3", "--trials", "2", "--records", "records/manifest.json"),
        ("reproduce", "comp:fig3", "--counts", "records/counts.csv"),
        ("reproduce", "comp:fig3", "--counts", "records/counts.json"),
        ("reproduce", "comp:fig3", "--counts", "buses.parquet"),
        ("release", "run.toml", "--out", "map", "--from-plan", "records"),
        ("publish", "run.toml", "--date", canaries.DAY, "--out", "records"),
    ],
)  # fmt: skip
def test_records_in_the_wrong_place_are_not_quoted(places, call, arguments):
    """Where a folder of a release, a ledger, a key or counts is asked for, records stand."""
    here, tmp = places
    (here / "records" / "buses").mkdir(parents=True)
    for name in (
        "manifest.json", "receipt.json", "plan.json", "counts.json", "buses/latest.json",
        "cells.parquet", "users.parquet", "surat_itms.parquet", "cells.csv", "counts.csv",
    ):  # fmt: skip
        canaries.write(here / "records" / name, canaries.table())
    before = inputs(here)
    heard = call(*arguments)
    assert heard.code == (1 if arguments[0] == "publish" else 2), heard.err
    assert heard.leak() is None
    clean(here, tmp, before)


def broken(monkeypatch, step, error):
    """Make a step of a release raise an error, or be interrupted."""
    places = {
        "run": (Session, "run"), "arrow": (Session, "arrow"), "plan": (shared_steps, "plan_run"),
        "reserve": (Ledger, "reserve"), "noise": (noise, "add_laplace"), "store": (Ledger, "store"),
        "write": (folders, "write_tables"),
    }  # fmt: skip
    place, name = places[step]
    whole = getattr(place, name)

    def fails(*given, **named):
        if step in ("run", "write"):
            whole(*given, **named)
        if error is signal.SIGINT:
            signal.raise_signal(signal.SIGINT)
        raise error

    monkeypatch.setattr(place, name, fails)


STEPS = ("run", "arrow", "plan", "reserve", "noise", "store", "write")
ERRORS = {
    "interrupted": (signal.SIGINT, 130),
    "full disk": (OSError(28, "No space left on device"), 1),
    "no memory": (MemoryError(), 1),
    "unforeseen": (RuntimeError(f"row {canaries.STEM}, {canaries.VALUES[0]}"), 1),
}
STOPS = [
    (step, name)
    for number, step in enumerate(STEPS)
    for place, name in enumerate(ERRORS)
    if LONG or name == "unforeseen" or place == number % 3
]
"""Each step fails unforeseen, and in one of the other ways in turn; in the long form in all."""


@pytest.mark.slow
@pytest.mark.parametrize(("step", "name"), STOPS)
def test_no_stop_on_the_way_shows_a_canary(places, call, monkeypatch, step, name):
    """Interrupted or failing at any step, it says one line, and nothing stays in a folder."""
    (here, tmp), (error, code) = places, ERRORS[name]
    before = inputs(here)
    broken(monkeypatch, step, error)
    heard = call(*READ["release"])
    assert heard.code == code
    assert canaries.in_text(heard.out + heard.err + "\n".join(heard.logged)) is None
    assert heard.err.count("\n") == 1
    assert not (here / "map").exists()
    clean(here, tmp, before)


CHILD = """\
import os, signal, sys, threading
from hexveil.cli import main
from hexveil.records.duckdb.session import Session
from hexveil.publishing import folder
place, name = {place}, {name!r}
whole = getattr(place, name)
def stopped(*given, **named):
    whole(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, name, stopped)
sys.exit(main(sys.argv[1:]))
"""


def child(text, *arguments, **more):
    """Run a text of Python with the command's arguments, in a process of its own."""
    environment = {**os.environ, "PYTHONWARNINGS": "always", "PYTHONFAULTHANDLER": "1", **more}
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", text, *arguments],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("place", "name"), [("Session", "run"), ("folder", "write_tables")])
def test_a_kill_leaves_nothing_that_others_may_read(places, call, place, name):
    """Killed while reading, or while writing: a folder of temporary files is its owner's alone."""
    here, tmp = places
    before = inputs(here)
    text = CHILD.format(place=place, name=name)
    done = child(text, *READ["release"])
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert canaries.in_text(done.stdout + done.stderr) is None
    assert canaries.in_folder(here, before) == []
    own = [one for one in left(tmp) if one.parent == scratch.place()]
    assert len(own) == (1 if place == "Session" else 0)
    assert {stat.S_IMODE(one.stat().st_mode) & 0o077 for one in tmp.rglob("*")} <= {0}
    assert call(*READ["plan"]).code == 0
    assert left(tmp) == []


def test_no_traceback_prints_variables():
    """Nothing replaces Python's tracebacks by some that show the variables of every frame."""
    code = "import sys, hexveil.cli.app; assert sys.excepthook is sys.__excepthook__"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def public_objects(tmp_path_factory):
    """Return an object of every public kind that was made of canaries."""
    pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("objects")
    ds = hv.read(canaries.table(), **READING, quantum="0.000001")
    plan = hv.plan(ds, epsilon=1, statistics=("mean", "variance"), advise=False)
    book = hv.Ledger(folder / "book.sqlite", dataset="buses", budget=3)
    made = hv.release(ds, plan, ledger=book, accept_noise=True)
    loaded = hv.load(made.write(folder / "map"))
    table = hv.capacity(ds, epsilon=1)
    days = hv.read(
        canaries.table(), user="bus", value="speed", bounds=(0, 65), time="time",
        cells=hv.Labels("line"), privacy_unit="user-day", timezone="Asia/Kolkata",
    )  # fmt: skip
    return [
        ds, ds.public, ds.sums, ds.units, ds.occupancy, ds.public.cells, ds.public.recount,
        ds.public.recount.source, plan, plan.table, plan.users, book, book.account, book.spend(),
        book.entries(), book.key, made, made.manifest, made.to_arrow(), loaded, table, days,
        days.units, list(made), made.head(), made.__geo_interface__, plan.to_pandas(),
    ]  # fmt: skip


def test_no_public_object_shows_a_canary(public_objects):
    """Their reprs, texts and pages for notebooks hold public facts and noisy numbers alone."""
    for one in public_objects:
        shown = [repr(one), str(one), f"{one}"]
        shown += [one._repr_html_()] if hasattr(one, "_repr_html_") else []
        for text in shown:
            assert canaries.in_text(text) is None, type(one).__name__
            assert canaries.in_bytes(text.encode()) is None, type(one).__name__


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Sums", "Units", "Dataset"])
def test_private_objects_are_not_pickled(public_objects, kind):
    """What is private goes to no other process and no file by itself."""
    import pickle  # noqa: PLC0415

    private = next(one for one in public_objects if type(one).__name__ == kind)
    with pytest.raises(HexveilError):
        pickle.dumps(private)


@pytest.mark.parametrize("case", BAD)
def test_no_exception_holds_a_canary(places, case):
    """What a program that calls the library gets: text, arguments, attributes, cause, context."""
    here, tmp = places
    spoil, options, _ = BAD[case]
    if options:
        return  # those are of the command
    more = spoil(here, canaries.table())
    source = more[1] if more else "buses.parquet"
    try:
        hv.read(source, **READING)
    except HexveilError as error:
        assert canaries.in_error(error) is None  # noqa: PT017  some can be read
    assert left(tmp) == []


class Odd:
    """A value that no engine knows, and that says who it is of."""

    def __arrow_c_stream__(self, schema=None):
        """Fail as a library may: with a row in the message."""
        raise ValueError(f"cannot convert {canaries.STEM}: {canaries.VALUES[0]}")


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "duckdb", "stream", "not UTF-8"])
def test_no_table_in_memory_is_quoted(kind):
    """Values of mixed types, and what cannot be handed over, end in a sentence of ours."""
    mixed = canaries.table().to_pylist()
    mixed[0]["speed"], mixed[1]["bus"] = canaries.STEM, 17
    if kind == "pandas":
        source = pytest.importorskip("pandas").DataFrame(mixed).drop(columns="time")
    elif kind == "polars":
        pl = pytest.importorskip("polars")
        source = pl.DataFrame(mixed, strict=False, infer_schema_length=None).drop("time")
    elif kind == "lazy":
        pl = pytest.importorskip("polars")
        source = pl.LazyFrame(canaries.table()).with_columns(pl.col("bus").cast(pl.Int64))
    elif kind == "duckdb":
        import duckdb  # noqa: PLC0415

        rows = canaries.table()
        source = duckdb.connect().from_arrow(rows).project("* REPLACE (bus::INT AS bus)")
    elif kind == "stream":
        source = Odd()
    else:
        source = with_broken_ids(canaries.table().slice(0, 3))
    with pytest.raises(HexveilError) as caught:
        hv.read(source, **READING)
    assert canaries.in_error(caught.value) is None


def sums_table(**columns):
    """Return sums of canaries, some columns replaced."""
    rows = canaries.rows()
    made = {
        "cell": [row["line"] for row in rows],
        "user": [row["bus"] for row in rows],
        "n": [1] * len(rows),
        "sum": [row["speed"] for row in rows],
        "sum_sq": [row["speed"] ** 2 for row in rows],
    }
    return pa.table(made | columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"n": [0.5] * 180}, {"n": canaries.table()["speed"]}, {"n": canaries.table()["bus"]},
        {"sum": canaries.table()["bus"]}, {"sum": [None] * 180}, {"user": [None] * 180},
        {"cell": [None] * 180}, {"user": [["nested"]] * 180},
    ],
)  # fmt: skip
def test_no_odd_table_of_sums_is_quoted(columns):
    """Sums made elsewhere that cannot be used are refused in public words."""
    with pytest.raises(InputError) as caught:
        hv.from_sums(sums_table(**columns), bounds=(0, 65))
    assert canaries.in_error(caught.value) is None


def test_the_library_s_refusals_hold_no_canary(tmp_path):
    """A budget that is too small, another's key, other records: said without a unit's name."""
    ds = hv.from_sums(sums_table(), bounds=(0, 65))
    few = hv.from_sums(sums_table().slice(0, 100), bounds=(0, 65))
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="buses", budget="0.5")
    plan = hv.plan(ds, epsilon=1, advise=False)
    with pytest.raises(BudgetError) as refused:
        hv.release(ds, plan, ledger=book, accept_noise=True)
    with pytest.raises(InputError) as other:
        hv.release(few, plan, ledger=book, accept_noise=True)
    (tmp_path / "other.key").write_text("ab" * 32)
    with pytest.raises(InputError) as key:
        hv.Ledger(tmp_path / "book.sqlite", dataset="buses", key=tmp_path / "other.key")
    for caught in (refused, other, key):
        assert canaries.in_error(caught.value) is None


@pytest.mark.slow
def test_ids_are_in_the_ledger_as_keyed_hashes_alone(places, call):
    """The ledger holds a hash of each id under the key; no id, no bare hash of one."""
    import hashlib  # noqa: PLC0415

    here, _ = places
    assert call(*READ["release"]).code == 0
    content = b"".join(
        path.read_bytes() for path in here.glob("ledger.sqlite*") if path.suffix != ".key"
    )
    key = hv.Ledger("ledger.sqlite", dataset="buses").key
    names = [f"{canaries.STEM}-{k:03d}".encode() for k in range(canaries.N_USERS)]
    assert canaries.in_bytes(content) is None
    for name in names:
        known = hashlib.blake2b(name + b"\x1f", key=key.secret, digest_size=16, person=b"unit")
        assert known.digest() in content
        for bare in (hashlib.sha256, hashlib.md5, hashlib.sha1, hashlib.blake2b):
            assert bare(name).digest()[:16] not in content
    assert stat.S_IMODE(Path("ledger.sqlite.key").stat().st_mode) == 0o600
