"""Wrong use: one sentence on stderr, exit 2, nothing written, nothing spent."""

import re

import pytest

import hexveil as hv
from cli.conftest import listing

ROWS = r"""
plum | see hexveil --help
inspect --lat-e 3 | [Ss]ee hexveil inspect --help
ledger shw | Did you mean 'show'\? See hexveil ledger --help
plan records.csv --set plan.methd=joint | no field 'plan.methd'; did you mean plan.method\?
plan records.csv --set method=joint | no field 'method'; did you mean plan.method\?
plan records.csv --set plan.method | write --set plan.method=VALUE
plan records.csv --set plan.method=a --set plan.method=b | --set plan.method is given twice
plan records.csv --set plan.epsilon=1 --epsilon 1 | are the same field: use one
plan records.csv --set cells.one_cell=yes | must be true or false, got 'yes'
plan records.csv --set plan.method=magic | --set plan.method must be one of
plan records.csv --target-error 2 | No such option '--target-error': write --set plan.target_error=
dossier map --out map.md | No such option '--out'; see hexveil dossier --help
plan run.toml --save nowhere/deep | the folder nowhere/deep cannot be made
plan run.toml --save . | exists; a saved plan is never changed
plan run.toml --set plan.statistics=share<10 --set plan.weights=3 | must name what 3 is for
plan run.toml --set plan.statistics=mean --set plan.estimator=bins | estimator \(in \[plan\]\) goes
evaluate run.toml --value speed --value delay | this command takes one value column
inspect --sql spark | source is needed
release run.toml --set source=none-*.parquet | none-\*\.parquet
release run.toml --user bsu | user.*'bsu'.*did you mean 'bus'
release run.toml --value sped | value.*'sped'.*did you mean 'speed'
release run.toml --timeslot 1h --timezone Asia/Calcuta | did you mean 'Asia/Calcutta'
release run.toml --set select.min_users=1000 | no cell.*min_users
release run.toml --out run.toml/map | run\.toml/map
release run.toml --out . | exist
release run.toml --set plan.mechanism=Levi | there is no 'Levi'; available: Baseline
release run.toml --from-plan none | none is not a folder
release run.toml --set release.context=roads.geojson | context.*roads.geojson
release run.toml --ledger run.toml | run.toml
release run.toml --epsilon 0.01 | nothing was spent: this grid is too fine
publish run.toml | name a day \(--date\), or the first and the last
publish run.toml --date tomorrow | a day must be a date such as 2026-11-20
publish run.toml --from 2022-01-02 --to 2022-01-01 | must be a span
publish run.toml --date 2022-01-01 --timezone UTC --set publish.wait=soon | wait must be a time such
publish run.toml --date 2022-01-01 --set select.dates=2022-01-01,2022-01-02 | cannot be combined
publish run.toml --date 2022-01-01 --out nowhere://maps | cannot be opened as a place for maps
evaluate | name counts \(--counts\), or records and one of their cells \(--cell\)
evaluate run.toml --cell 0 --counts counts.json | --counts and records cannot be combined
evaluate --counts counts.json | --counts needs --values
evaluate --counts counts.json --values normal:20,10 | --counts needs --bounds
SIMULATED --cell 0 | --counts and --cell cannot be combined
SIMULATED --trials x | --trials
SIMULATED --counts none.json | there is no file
evaluate run.toml --cell 9 | there is no cell
simulate | --out
simulate --vehicles cars --out a.parquet --streets b.geojson | leave --streets out
simulate --out city.parquet --streets ./city.parquet | name the same file
simulate --out city.parquet --streets no/streets.geojson | there is no folder no
ledger show gone.sqlite | gone.sqlite; hexveil ledger init makes one
ledger show none.toml | names no ledger
ledger show memory:// | in memory ends
ledger show book.sqlite --dataset trams | does not know 'trams'; it knows buses
ledger history book.sqlite --limit 0 | --limit
ledger resolve book.sqlite --give-back a --abandon b | cannot be combined
ledger resolve book.sqlite --abandon a | 0 unfinished releases
ledger set-budget book.sqlite 3 | --dataset\) is needed
ledger init new.sqlite | dataset \(in \[ledger\], or --dataset\) is needed
ledger init book.sqlite --dataset trams | name its budget
"""
SIMULATED = "evaluate --counts counts.json --values normal:20,10 --bounds 0,65"
CASES = [
    pytest.param(*row.split(" | "), marks=pytest.mark.slow if row.startswith("release") else ())
    for row in ROWS.strip().splitlines()
]


def check_refused(refuse, command, sentence):
    """Fail unless a command ends in exit 2 and one sentence, and no file appears or changes."""
    before, said = listing(), refuse(command)
    assert said.out == ""
    assert said.err.startswith("hexveil: ")
    assert said.err.count("\n") == 1
    assert said.err.rstrip().endswith((".", "?")), said.err
    assert "secret" not in said.err
    assert re.search(sentence, said.err), said.err
    assert listing() == before


@pytest.mark.parametrize(("command", "sentence"), CASES)
def test_wrong_use_is_one_sentence_and_spends_nothing(here, okay, refuse, command, sentence):
    """Whatever is wrong with the words of a command, of a field or of an option."""
    (here / "counts.json").write_text("[9, 3, 1, 1, 1, 5]")
    (here / "none.toml").write_text("[ledger]\nbudget = 1\n")
    if command.startswith("ledger"):
        okay("ledger init book.sqlite --dataset buses --budget 2")
    check_refused(refuse, command.replace("SIMULATED", SIMULATED), sentence)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--set release.estimates=rough", "estimates"),
        ("--resolution 3 --set release.estimates=raw,smoothed", "needs more than one cell"),
    ],
)
def test_what_the_release_alone_can_judge_spends_nothing(here, refuse, options, sentence):
    """It is refused before the booking, although the ledger has been opened."""
    said = refuse("release run.toml", options)
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert hv.Ledger("ledger.sqlite", dataset="buses", budget=2).spent == 0
    assert not (here / "map").exists()
