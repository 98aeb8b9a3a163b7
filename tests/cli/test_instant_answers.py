"""Help and completion from files: what they say is what the commands say, without a library."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hexveil.cli
from hexveil.cli import instant_answers
from hexveil.cli.instant_answers import answer, offered

TOOL = Path(__file__).resolve().parents[2] / "tools" / "command_index.py"
INDEX = json.loads((Path(hexveil.cli.__file__).parent / "command_index.json").read_text("utf-8"))


@pytest.mark.slow
def test_files_say_what_the_commands_say():
    """Run `python tools/command_index.py` after a change of a command or an option."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize("asked", [{}, {"_HEXVEIL_COMPLETE": "complete_bash"}])
def test_nothing_is_loaded(asked):
    """Neither help nor completing an option loads the parser, or anything of size."""
    code = (
        "import sys; from hexveil.cli import main; "
        "[main([*words, '--help']) for words in ([], ['plan'], ['ledger', 'show'])]; "
        "print(*sorted({'typer', 'rich', 'numpy', 'dataclasses', 'pydantic'} & set(sys.modules)))"
    )
    env = os.environ | asked | {"COMP_WORDS": "hexveil plan --epsi", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout.splitlines()[-1] == ""
    assert ("--epsilon" in done.stdout.splitlines()) == bool(asked)
    assert ("Usage: hexveil ledger show" in done.stdout) != bool(asked)


@pytest.mark.parametrize(
    ("words", "incomplete", "names"),
    [
        ((), "pl", ["plan"]),
        ((), "--ver", ["--version"]),
        (("ledger",), "re", ["resolve"]),
        (("ledger", "show"), "--data", ["--dataset"]),
        (("plan", "run.toml", "--epsilon", "1"), "--epsil", []),  # given already
        (("plan", "--epsilon"), "x", []),  # a value, of any kind
        (("plan",), "run", []),  # a file's name is the shell's business
    ],
)
def test_offers(words, incomplete, names):
    assert [name for name, _ in offered(INDEX, words, incomplete)] == names


@pytest.mark.parametrize(
    ("words", "incomplete"),
    [(("plum",), ""), (("plan", "--no-such"), ""), (("plan",), "--epsilon=")],
)
def test_unclear_lines_are_left_to_the_parser(words, incomplete):
    assert offered(INDEX, words, incomplete) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("COLUMNS", "60"), ("FORCE_COLOR", "1"), ("_HEXVEIL_COMPLETE", "source_bash")],
)
def test_other_layouts_are_left_to_the_parser(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert answer(["--help"]) is None
    assert answer(["plan", "--help"]) is None


@pytest.mark.parametrize("words", [["plum", "--help"], ["plan", "run.toml", "--help"],
                                   ["plan", "--epsilon", "--help"]])  # fmt: skip
def test_other_help_is_left_to_the_parser(words):
    assert answer(words) is None


def test_quoted_words_are_left_to_the_parser(monkeypatch):
    monkeypatch.setenv("_HEXVEIL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setenv("COMP_WORDS", "hexveil plan 'a b")
    assert answer([]) is None


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("line", ["hexveil p", "hexveil plan --e", "hexveil ledger s"])
def test_shells_get_what_the_parser_gives(shell, line, monkeypatch, capsys):
    asked = {
        "_HEXVEIL_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "_TYPER_COMPLETE_ARGS": line,
        "COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    assert answer([]) == 0
    found = capsys.readouterr().out
    code = "from hexveil.cli import app; app.run([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # The parser breaks help at 80 columns, even where no terminal shows it.
    assert found.split() == done.stdout.split()
    assert instant_answers.HELP_WIDTH == 80
