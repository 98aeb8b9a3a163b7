"""What users of other libraries ask (questions.md): the check of every row is what it says."""

import contextlib
import io
import re
import shlex

import pytest

from hexveil.cli import main
from source_trees import DOCS

PAGE = DOCS / "understand" / "questions.md"
TEXT = PAGE.read_text(encoding="utf-8")
THREAD = re.compile(r"\[(.+)\]\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+\)")
CHECK = re.compile(r'`(?P<done>[^`]+)`(?: (?P<how>refuses|prints): "(?P<words>[^"]+)")?')


def rows():
    """Return the cells of each row of the page's tables."""
    lines = [line for line in TEXT.splitlines() if line.startswith("| [")]
    return [line.strip("| ").split(" | ") for line in lines]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Return what the page's lines of Python name, in the folder that they wrote to."""
    found = {}
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    with contextlib.chdir(tmp_path_factory.mktemp("questions")):
        exec(compile(code, "questions.md", "exec"), found)  # noqa: S102  our own page
        yield found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hexveil.GridTooFineWarning")
@pytest.mark.parametrize("row", rows(), ids=lambda row: THREAD.match(row[0])[1])
def test_the_answer_is_what_happens(row, names):
    """An expression is true, a call is refused in these words, or a command prints them."""
    check = CHECK.fullmatch(row[3])
    if check["how"] == "prints":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert main(shlex.split(check["done"])[1:]) == 0
        assert check["words"] in " ".join(printed.getvalue().split())
    elif check["how"] == "refuses":
        with pytest.raises(Exception, match=re.escape(check["words"])):
            eval(check["done"], names)  # noqa: S307  our own page
    else:
        assert eval(check["done"], names)  # noqa: S307  our own page


def test_six_libraries_have_five_questions_each():
    """Each of the page's sections has five rows, each with a thread and a check."""
    sections = re.split(r"^## .+$", TEXT, flags=re.MULTILINE)[1:]
    assert [section.count("\n| [") for section in sections] == [5] * 6
    assert all(THREAD.match(row[0]) and CHECK.fullmatch(row[3]) for row in rows())
    assert len({row[0] for row in rows()}) == 30
