"""Every sentence that the package refuses or warns with, as a page that the search finds.

The page is made when the site is built, so that it is never behind the code.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "hexveil"
PLACE = "reference/messages.md"
HEAD = """# Messages

Every sentence that hexveil refuses or warns with, by the module that it comes from; "…" stands for
names and numbers. [Troubleshooting](../how-to/troubleshooting.md) explains those that people meet
most. No message contains a value, an id or a row of records.
"""


def text_of(node: ast.expr) -> str:
    """Return the text of a string of the code, "…" in place of what it fills in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(part) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    return ""


def sentences(code: str) -> list[str]:
    """Return the sentences of a module's errors and warnings, in their order, each once."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name.endswith(("Error", "Warning")) or name == "warn":
                found.append((node.lineno, " ".join(text_of(node.args[0]).split())))
    return list(dict.fromkeys(text for _, text in sorted(found) if text.count(" ") > 2))


def page() -> str:
    """Return the page, a heading for each module that has messages."""
    parts = [HEAD]
    for file in sorted(PACKAGE.rglob("*.py")):
        if lines := sentences(file.read_text(encoding="utf-8")):
            parts.append(f"## {file.relative_to(PACKAGE)}\n")
            parts += [f"- `` {line} ``" for line in lines] + [""]
    return "\n".join(parts)
