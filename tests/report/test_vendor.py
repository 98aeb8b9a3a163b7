"""What the page carries of other projects is what the lock file names, with its licences."""

import hashlib
import json
import re
from pathlib import Path

import hexveil.report

VENDOR = Path(hexveil.report.__file__).parent / "assets" / "vendor"
TOOLS = Path(__file__).resolve().parents[2] / "tools" / "page"


def test_the_map_library_is_the_one_that_was_built():
    """The committed file has the recorded hash, and nothing in it can end a script element."""
    text = (VENDOR / "d3.min.js").read_bytes()
    recorded = (VENDOR / "d3.min.js.sha256").read_text().strip()
    assert hashlib.sha256(text).hexdigest() == recorded
    assert b"</" not in text
    assert text.count(b"Permission to use") >= 1  # the licence goes into every page
    assert b"eval(" not in text


def test_each_bundled_module_is_locked_and_licensed():
    """The licence file names each d3 module of the lock file in its version, and its licence."""
    lock = json.loads((TOOLS / "package-lock.json").read_text())["packages"]
    locked = {
        path.removeprefix("node_modules/"): entry["version"]
        for path, entry in lock.items()
        if path.startswith("node_modules/d3-")
    }
    licences = (VENDOR / "d3.LICENSE.txt").read_text()
    assert dict(re.findall(r"^(d3-\w+) ([\d.]+)$", licences, re.MULTILINE)) == locked
    assert "Permission to use" in licences
    assert "Redistribution and use" in licences  # d3-ease
    script = (VENDOR / "d3.min.js").read_text("utf-8")
    assert script.startswith(f"/*\n{licences}*/")


def test_the_lock_file_names_no_host():
    """Packages are named by version and hash alone, so that any registry serves."""
    assert "resolved" not in (TOOLS / "package-lock.json").read_text()
