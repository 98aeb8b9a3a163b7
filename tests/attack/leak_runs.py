"""The command in a folder of canaries: what it leaves behind, in every place one could look."""

import logging
import tempfile
import warnings
from dataclasses import dataclass, field

import click

import hexveil as hv
from attack import leak_canaries as canaries
from bus_runs import run_text
from hexveil.cli import app as cli
from hexveil.cli import main


def write_run(folder, source):
    """Write the run file of a source into a folder."""
    text = run_text(
        source,
        values='quantum = "0.000001"',
        cells='timezone = "Asia/Kolkata"',
        # A range that is found privately is an output, which differs with the noise.
        plan='clipping_range = "bounds"',
        release="accept_noise = true",
        budget=9,
    )
    (folder / "run.toml").write_text(text)


READING = {
    "user": "bus", "value": "speed", "bounds": (0, 65), "lat": "lat", "lon": "lon",
    "time": "time", "cells": hv.Cells(6, None, "Asia/Kolkata"),
}  # fmt: skip
"""How the library reads the records."""

STUDY = ("--trials", "10", "--mechanism", "Baseline", "--epsilon", "1")
DRAWN = ("--trials", "2", "--epsilon", "1", "--jobs", "1")
WHOLE = ("--set", "read.privacy_unit=user", "--set", "release.out=mapped")
READ = {
    "inspect": ("inspect", "run.toml"),
    "map": ("map", "run.toml", "--yes", *WHOLE),
    "plan": ("plan", "run.toml", "--save", "saved"),
    "release": ("release", "run.toml", "--out", "map"),
    "publish": ("publish", "run.toml", "--date", canaries.DAY, "--out", "maps"),
    "evaluate": ("evaluate", "run.toml", "--cell", "0", *STUDY),
    "reproduce": ("reproduce", "wc:fig2", "comp:fig3", "--records", "run.toml", *DRAWN),
}
"""A call of each command that reads records."""

STORY = (
    READ["inspect"],
    (*READ["inspect"], "--json"),
    (*READ["inspect"], "--sql", "duckdb"),
    (*READ["inspect"], "--init"),
    (*READ["plan"], "--set", "plan.statistics=mean,variance"),
    ("plan", "run.toml", "--json", "--compare"),
    ("ledger init", "run.toml"),
    READ["release"],
    READ["map"],
    ("release", "run.toml", "--out", "again", "--json"),
    (
        "release", "run.toml", "--out", "both", "--from-plan", "saved", "--set",
        "plan.statistics=mean,sd",
    ),
    ("release", "run.toml", "--out", "ranges", "--set", "plan.clipping_range=per-cell"),
    ("ledger keygen", "signing.pem"),
    ("release", "run.toml", "--out", "signed", "--set", "release.sign=signing.pem"),
    ("verify", "signed", "--key", "signing.pem.pub"),
    READ["publish"],
    READ["publish"],
    (*READ["publish"], "--set", "read.privacy_unit=user-day", "--dry-run"),
    READ["evaluate"],
    (*READ["evaluate"], "--json"),
    ("ledger show", "run.toml"),
    ("ledger history", "run.toml"),
    ("ledger history", "run.toml", "--json"),
    ("ledger set-budget", "run.toml", "10"),
    ("ledger verify", "run.toml", "--receipt", "map"),
    ("ledger resolve", "run.toml"),
    ("verify", "map"),
    ("compare", "map", "ranges", "--out", "changes"),
    ("roll-up", "map", "--resolution", "all", "--timeslot", "all", "--out", "rolled"),
    ("dossier", "map"),
    ("dossier", "map", "--json"),
    ("simulate", "--users", "2", "--days", "1", "--seed", "1", "--out", "city.parquet"),
    # Studies of own records: test_studies_of_own_values_are_stamped.
    (*READ["reproduce"], "--values", "normal:20,10", "--out", "drawn"),
    ("reproduce", "--list"),
)  # fmt: skip
"""Good calls of every command but the demo, in an order in which each finds what it needs."""


def commands(group=None, stem=""):
    """Return the names of all commands that there are, those of groups in two words."""
    known = cli.app if group is None else group
    found = set()
    for name in known.list_commands(None):
        one = known.get_command(click.Context(known), name)
        inside = commands(one, f"{stem}{name} ") if hasattr(one, "list_commands") else set()
        found |= inside or {stem + name}
    return found


@dataclass
class Heard:
    """Everything that a call let out, but for files."""

    code: int
    out: str
    err: str
    logged: list = field(default_factory=list)
    warned: list = field(default_factory=list)
    errors: list = field(default_factory=list)

    def leak(self):
        """Return where a canary was found, and which; None if there is none."""
        texts = {"stdout": self.out, "stderr": self.err}
        texts |= {"log": "\n".join(self.logged), "warning": "\n".join(self.warned)}
        for where, text in texts.items():
            if found := canaries.in_text(text):
                return where, found
        found = next(filter(None, map(canaries.in_error, self.errors)), None)
        return found and ("error", found)


LOGGERS = ("", "sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", "duckdb", "asyncio")
"""Those that say everything, with all that are made below them."""


class Caller:
    """Calls the command in this process and hears all of it."""

    def __init__(self, capfd, caplog, monkeypatch):
        self._capfd, self._caplog, self._errors = capfd, caplog, []
        below = [name for name in logging.root.manager.loggerDict if name.startswith("sqlalchemy")]
        for name in (*LOGGERS, *below):
            caplog.set_level(logging.DEBUG, name)
        whole = cli.app

        def watched(*given, **named):
            try:
                return whole(*given, **named)
            except BaseException as error:
                self._errors.append(error)
                raise

        monkeypatch.setattr(cli, "app", watched)

    def __call__(self, *arguments):
        """Return what a call let out; a command of two words is one argument."""
        words = [*arguments[0].split(), *map(str, arguments[1:])]
        self._errors.clear()
        self._caplog.clear()
        self._capfd.readouterr()
        heard = Heard(0, "", "")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            heard.code = main(words)
        heard.out, heard.err = self._capfd.readouterr()
        heard.logged = [one.getMessage() + repr(one.args) for one in self._caplog.records]
        heard.warned = [str(one.message) for one in warned]
        heard.errors = list(self._errors)
        return heard


def stand(folder, monkeypatch, records=None, source="buses.parquet"):
    """Stand in a folder with records and their run file; return the folder of temporary files."""
    (folder / "here").mkdir()
    (folder / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.delenv("HEXVEIL_SCRATCH", raising=False)
    canaries.write(folder / "here" / source, canaries.table() if records is None else records)
    write_run(folder / "here", source)
    monkeypatch.chdir(folder / "here")
    return folder / "here", folder / "tmp"
