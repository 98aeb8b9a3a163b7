"""Content security policy of the page: no requests, and no scripts but the page's own.

Each script and the one style element are allowed by the hash of their text, so that a script or a
style that slipped into the page in some other way, say in a label, is not run. There are no style
attributes: places that depend on numbers are rules of the style element, and what moves is set
through the DOM, which a policy does not judge.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def policy(scripts: Iterable[str], style: str) -> str:
    """Return the policy of a page with these inline scripts and this style.

    Parameters
    ----------
    scripts : iterable of str
        What stands between the tags of each script element, to the letter.
    style : str
        What stands between the tags of the style element.

    Examples
    --------
    >>> policy(["start();"], "")[:50]
    "default-src 'none'; script-src 'sha256-E6jQvrT2Ziv"
    """
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": _hash(style),
        # The icon is an empty data address.
        "img-src": "data:",
        # These two do not fall back to default-src, so they are forbidden by name.
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {allowed}" for name, allowed in rules.items())


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
