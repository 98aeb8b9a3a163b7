"""The notebooks are stored without outputs; `make site` runs them from top to bottom."""

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
