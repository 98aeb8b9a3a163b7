"""Run uv with the index that pip is set to: uv.py ARGUMENT ...

uv installs in a quarter of pip's processor time, but does not ask pip, whose settings may name
another index, folders of files and a certificate.
"""

import os
import re
import subprocess
import sys

NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip, and what uv calls them."""
APART = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
"""Variables that lead out of the environment that uv is told."""


def environment() -> dict[str, str]:
    """Return the environment for uv; what is set for uv itself stays."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = dict(re.findall(r"^\S*\.([a-z-]+)='(.*)'$", lines, flags=re.MULTILINE))
    named = {new: found[old] for old, new in NAMES.items() if old in found}
    named["UV_FIND_LINKS"] = ",".join(named.get("UV_FIND_LINKS", "").split())
    alike = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON_DOWNLOADS": "never"}
    return named | alike | {key: os.environ[key] for key in os.environ.keys() - set(APART)}


if __name__ == "__main__":
    command = [sys.executable, "-m", "uv", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=environment(), check=False).returncode)
