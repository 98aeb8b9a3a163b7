"""The notebooks: they are stored without outputs, and run from top to bottom."""

import ast
import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
KINDS = {"markdown", "code"}


def cells(path):
    """Return the cells of a notebook."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path):
    """Outputs hold noise, so they are made where a notebook is shown, and are not stored."""
    book = json.loads(path.read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert cell["cell_type"] in KINDS
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    """Every relative link of a notebook is in the repository."""
    text = "".join("".join(c["source"]) for c in cells(path) if c["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)\s#]+)", text)
    assert links
    near = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in near if not (FOLDER / link).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    """All code runs, in a new folder and in order, and leaves a release there."""
    import matplotlib as mpl  # noqa: PLC0415  the rest of this file needs no plots
    import matplotlib.pyplot as plt  # noqa: PLC0415  as above

    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    names = {}
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            place = f"{path.stem}, cell {number}"
            shown(compile("".join(cell["source"]), place, "exec", ast.PyCF_ONLY_AST), place, names)
    plt.close("all")
    assert (tmp_path / "map" / "report.html").is_file()


def shown(code, place, names):
    """Run a cell; what it would show, its last expression, must have something to show."""
    last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
    exec(compile(code, place, "exec"), names)  # noqa: S102  our own notebook
    if last is not None:
        value = eval(compile(ast.Expression(last.value), place, "eval"), names)  # noqa: S307  as above
        assert value is None or repr(value)
