"""Tests of `hexveil reproduce`."""

import csv
import json

import pytest

from hexveil.cli import main
from hexveil.simulation import figure_style
from hexveil_research.papers import catalogue
from hexveil_research.papers.study import Claim, Outcome, Panel, Study, line

FIGURE = Panel("cell", "Epsilon", "Error (km/h)", (line("Levy", [0.5, 1], [4, 2]),))
HOLDS = Claim("IOT", "Lemma III.2", "the median gains half", "2.9 of 5.3", holds=True)
FAILS = Claim("WC", "eq. (12)", "it is the optimum", "1.2, not 0.9", holds=False)
TRUE = Claim("WC", "eq. (12)", "the sum is the optimum", "0.9", holds=True, reading="corrected")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in an empty folder, with a catalogue of three quick studies."""
    monkeypatch.chdir(tmp_path)
    studies = (
        Study(
            "iot:fig3", "IOT, figure 3", "Sample scaling", lambda _: Outcome((FIGURE,), (HOLDS,))
        ),
        Study("wc:claims", "WC", "Claims", lambda _: Outcome((), (FAILS, TRUE)), draws=False),
        Study("comp:fig1", "COMP, figure 1", "Loss", lambda _: Outcome((FIGURE,)), records=True),
    )
    monkeypatch.setattr(catalogue, "STUDIES", studies)
    return tmp_path


def test_a_figure_is_made(here, capsys):
    """SVG, PNG and data stand in its folder, and the claim is said with what was measured."""
    assert main(["reproduce", "iot:fig3", "--trials", "10", "--jobs", "1"]) == 0
    made = sorted(path.name for path in (here / "reproduced" / "iot-fig3").iterdir())
    assert made == ["iot-fig3.csv", "iot-fig3.png", "iot-fig3.svg", "study.json"]
    said = capsys.readouterr().out
    assert "holds" in said
    assert "IOT Lemma III.2: the median gains half [2.9 of 5.3]" in said
    assert "Claims             as printed 1 holds" in said


def test_all_claims_stand_in_one_file(here, capsys):
    """claims.csv says of each claim whether it holds, and how it was read."""
    assert main(["reproduce", "--all", "--out", "made", "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["studies"]] == ["iot:fig3", "wc:claims", "comp:fig1"]
    with (here / "made" / "claims.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["paper"], row["reading"], row["verdict"]) for row in rows] == [
        ("IOT", "as printed", "holds"),
        ("WC", "as printed", "fails"),
        ("WC", "corrected", "holds"),
    ]


def test_the_second_time_nothing_is_made(here, capsys):
    """What stands already is said to, and the claims are said again."""
    for _ in range(2):
        assert main(["reproduce", "wc", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert said.count("(made before)") == 1
    assert said.count("as printed 1 fails; corrected 1 holds") == 2


def test_list_names_what_there_is(here, capsys):
    """Nothing is made, no folder is."""
    assert main(["reproduce", "--list"]) == 0
    said = capsys.readouterr().out
    assert "iot:fig3   IOT, figure 3: Sample scaling" in said
    assert "comp:fig1." in said.split("With --records")[1]
    assert list(here.iterdir()) == []
    assert main(["reproduce", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "iot:fig3"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a study, for example iot:fig3, or use --all; --list lists them."),
        (["iot:fig9"], "there is no study 'iot:fig9'; name one of iot:fig3, wc:claims, comp:fig1."),
        (["--all", "wc"], "--all and wc cannot be combined: use one of them."),
        (["wc", "--trials", "1"], "--trials must be at least 2, got 1."),
        (["wc", "--seed", "-1"], "--seed must be at least 0, got -1."),
        (["wc", "--jobs", "0"], "--jobs must be at least 1, got 0."),
        (["wc", "--records", "."], ". has neither surat_itms.parquet nor warsaw_buses.parquet"),
        (["wc", "--out", "file"], "file is a file; name a folder."),
    ],
)
def test_wrong_use_is_a_sentence(here, capsys, arguments, sentence):
    """Each is refused with exit 2 before anything is computed."""
    (here / "file").touch()
    assert main(["reproduce", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["file"]


def test_without_matplotlib_one_sentence_says_so(here, capsys, monkeypatch):
    """The extra that draws is named before a study begins."""
    monkeypatch.setattr(figure_style, "find_spec", lambda _: None)
    assert main(["reproduce", "--all"]) == 2
    assert 'pip install "hexveil[plots]"' in capsys.readouterr().err
    assert list(here.iterdir()) == []
