"""Tests of `hexveil reproduce`."""

import json

import numpy as np
import pytest

import hexveil as hv
from hexveil.cli import main
from hexveil_research.figures import figure_setting, outcomes
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
        Study("comp:fig1", "COMP, figure 1", "Loss", lambda _: Outcome((FIGURE,)), altered=True),
    )
    monkeypatch.setattr(catalogue, "STUDIES", studies)
    return tmp_path


def test_a_figure_is_made(here, capsys):
    """SVG, PNG and data stand in its folder, and the claim is said with what was measured."""
    pytest.importorskip("matplotlib")
    assert main(["reproduce", "iot:fig3", "--trials", "10", "--jobs", "1"]) == 0
    made = sorted(path.name for path in (here / "reproduced" / "iot-fig3").iterdir())
    assert made == ["iot-fig3.csv", "iot-fig3.png", "iot-fig3.svg", "study.json"]
    said = capsys.readouterr().out
    assert "holds" in said
    assert "IOT Lemma III.2: the median gains half [2.9 of 5.3]" in said
    assert "Claims             as printed 1 holds" in said


def test_list_names_what_there_is(here, capsys):
    """Nothing is made, no folder is."""
    assert main(["reproduce", "--list"]) == 0
    said = capsys.readouterr().out
    assert "iot:fig3   IOT, figure 3: Sample scaling" in said
    assert said.split("Own data")[1].split() == ["for", "all", "but", "iot:fig3,", "wc:claims."]
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
        (["comp", "--records", "."], "user (in [columns], or --user)"),
        (["wc:claims", "--gamma", "3"], "wc:claims is of the papers' own settings"),
        (["comp", "--cell", "17"], "--cell needs --records"),
        (["comp", "--built-in", "delhi"], "no built-in set 'delhi'"),
        (["comp", "--counts", "none.csv"], "no file"),
        (["comp", "--records", "b.csv", "--built-in", "itms"], "--built-in and --records"),
        (["wc", "--out", "file"], "file is a file; name a folder."),
    ],
)
def test_wrong_use_is_a_sentence(here, capsys, arguments, sentence):
    """Each is refused with exit 2 before anything is computed."""
    pytest.importorskip("matplotlib")
    (here / "file").touch()
    assert main(["reproduce", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["file"]


@pytest.fixture
def own(here, monkeypatch):
    """Return the settings that two quick figures were made with, one of which reads values."""
    settings = []

    def make(setting):
        settings.append(setting)
        return Outcome((FIGURE,))

    studies = (
        Study("iot:fig2", "IOT, figure 2", "All", make, altered=True, values=True),
        Study("comp:fig3", "COMP, figure 3", "Loss", make, altered=True),
        Study("wc:claims", "WC", "Claims", lambda _: Outcome((), (FAILS, TRUE))),
    )
    monkeypatch.setattr(catalogue, "STUDIES", studies)
    return settings


@pytest.mark.slow
def test_own_counts_in_one_command(own, here, capsys):
    """Figures alone, in a folder of their own; options arrive; a second time they are kept."""
    (here / "m.csv").write_text("9\n3\n1\n")
    call = ["reproduce", "--all", "--counts", "m.csv", "--epsilon", "1,0.5", "--gamma", "2"]
    call += ["--q", "0.1", "--scale", "3", "--bounds", "0,9", "--jobs", "1"]
    assert main(call) == 0
    assert own[0].data.counts.tolist() == [9, 3, 1]
    assert (own[0].epsilons, own[0].gamma, own[0].q, own[0].scale) == (("0.5", "1"), 2, 0.1, 3)
    assert own[0].span == 9
    assert "are not judged on other data" in capsys.readouterr().out
    out = here / "reproduced-own"
    assert sorted(path.name for path in out.iterdir()) == ["comp-fig3", "iot-fig2"]
    assert main(call) == 0
    assert len(own) == 2
    assert main([*call[:-2], "--jobs", "1", "--trials", "9"]) == 0
    assert len(own) == 4


# ---- Figures of other data than the papers': each is drawn, and of the data that was given ----


CITY = hv.Occupancy.from_dense(np.array([[9, 3, 1], [2, 8, 4], [7, 1, 0], [0, 2, 2]]))
SMALL = {"epsilons": ["0.5", "1"], "trials": 20}
FIGURES = [study.name for study in catalogue.STUDIES if study.altered]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_own_counts(name):
    """Its axis has the values of ε that were given; no claim of the papers is judged."""
    (outcome,) = outcomes([name], figure_setting(counts=CITY, bounds=(0, 10), **SMALL)).values()
    assert outcome.panels
    assert outcome.claims == ()
    for panel in outcome.panels:
        assert "own counts" in panel.title
        assert all(line.x.tolist() == [0.5, 1.0] for line in panel.lines)
        assert all(np.isfinite(line.y).all() for line in panel.lines)
        assert "km/h" not in panel.y_label
