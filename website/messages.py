"""Every sentence that the package refuses, warns or checks with, as a page for the search.

The page is made when the site is built, so that it is never behind the code.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PLACE = "reference/messages.md"
HEAD = """# Messages

What hexveil refuses, warns and checks with, by the module that it comes from; "…" stands for names
and numbers: leave them out of a search. [Troubleshooting](../how-to/troubleshooting.md) explains
the messages that people meet most. No message contains a value, an id or a row of records.
"""

WORD, LEAST = re.compile(r"[a-z]{2,}"), 3
OTHER = re.compile(
    r"</?[a-z]|::|\b(SELECT|CASE|CAST|CREATE|DROP|INSERT|UPDATE|SET|FROM|WHERE|AS|AND)\b"
)


def text_of(node: ast.AST) -> str:
    """Return the text of a string of the code, "…" in place of what it fills in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    return ""


def sentences(code: str) -> list[str]:
    """Return the sentences of a module that are no docstring, SQL or markup, each once."""
    tree, found = ast.parse(code), {}
    left = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    # Breadth first: a part of a text comes after the text.
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left |= {id(part) for part in node.values}
        text = " ".join(text_of(node).split()) if id(node) not in left else ""
        if len(WORD.findall(text)) >= LEAST and not OTHER.search(text):
            found[text] = node.lineno
    return sorted(found, key=found.__getitem__)


def page() -> str:
    """Return the page, a heading for each module that has messages, and one for all studies."""
    parts = [HEAD]
    for folder in (SOURCE / "hexveil", SOURCE / "hexveil_research"):
        for file in sorted(folder.rglob("*.py")):
            # Titles of studies are words that readers look for elsewhere.
            title = file.relative_to(folder) if folder.name == "hexveil" else folder.name
            if lines := sentences(file.read_text(encoding="utf-8")):
                parts += [f"## {title}\n"] if f"## {title}\n" not in parts else []
                parts += [f"- `` {line} ``" for line in lines] + [""]
    return "\n".join(parts)
