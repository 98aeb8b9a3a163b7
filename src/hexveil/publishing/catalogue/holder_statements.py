"""Facts about a publication that only its holder knows: publisher, licence, contact, coverage.

None of them is required, and none is guessed: a description says what is known.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from hexveil.base.errors import InputError

_URL = re.compile(r"https?://[^\s<>\"{}|\\^`]+")
_EMAIL = re.compile(r"[^\s@<>\"]+@[^\s@<>\"]+\.[^\s@<>\"]+")
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
THEMES = (
    "AGRI", "ECON", "EDUC", "ENER", "ENVI", "GOVE", "HEAL", "INTR", "JUST", "REGI", "SOCI", "TECH",
    "TRAN",
)  # fmt: skip
"""Codes of the EU's data themes."""
_LISTS = ("keywords", "theme")


@dataclass(frozen=True)
class Catalogue:
    """Facts for data portals, as the holder states them; each is optional.

    Attributes
    ----------
    title, description : str
        In place of the title and description that follow from the release.
    language : str
        Of the title and description, as a BCP 47 tag; default "en".
    keywords : tuple of str
    theme : tuple of str
        Codes of the EU's data themes, such as "TRAN", or URLs.
    publisher, publisher_url : str
        Name of the publishing organisation, and its web page.
    contact : str
        E-mail address, or URL of a contact page.
    license : str
        SPDX identifier, such as "CC-BY-4.0", or the URL of a licence.
    landing_page : str
        URL of a page about the data.
    spatial : str
        URL that names the area, in place of the outline of the cells alone.
    temporal : (str, str)
        First and last local day of the records, where the cells do not show it.
    base_url : str
        URL under which the folder will be served.

    Examples
    --------
    >>> Catalogue(publisher="City of Surat", license="CC-BY-4.0").stated()
    {'license': 'CC-BY-4.0', 'publisher': 'City of Surat'}
    """

    title: str | None = None
    description: str | None = None
    language: str | None = None
    keywords: tuple[str, ...] = ()
    theme: tuple[str, ...] = ()
    publisher: str | None = None
    publisher_url: str | None = None
    contact: str | None = None
    license: str | None = None
    landing_page: str | None = None
    spatial: str | None = None
    temporal: tuple[str, str] | None = None
    base_url: str | None = None

    def __post_init__(self) -> None:
        for name in _LISTS:
            entries = getattr(self, name)
            object.__setattr__(
                self, name, (entries,) if isinstance(entries, str) else tuple(entries)
            )
        for field in dataclasses.fields(self):
            _check(field.name, getattr(self, field.name))
        if self.temporal is not None:
            object.__setattr__(self, "temporal", tuple(self.temporal))
        if self.base_url is not None:
            # Relative addresses continue after the last slash.
            object.__setattr__(self, "base_url", self.base_url.rstrip("/") + "/")
        if self.publisher_url is not None and self.publisher is None:
            raise InputError("publisher_url needs publisher, the name of the organisation.")

    def stated(self) -> dict[str, Any]:
        """Return the facts that were stated, as JSON data in the order of their names."""
        facts = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            name: list(fact) if isinstance(fact, tuple) else fact
            for name, fact in sorted(facts.items())
            if fact
        }

    def below(self, path: str) -> Catalogue:
        """Return the same facts for a folder at a relative path below this one's address."""
        if self.base_url is None:
            return self
        return dataclasses.replace(self, base_url=f"{self.base_url}{path.strip('/')}/")


def _check(name: str, fact: Any) -> None:  # noqa: ANN401  whatever a caller wrote
    """Refuse a fact of the wrong kind, with an example of the right one."""
    if fact is None or fact == ():
        return
    if name == "temporal":
        _check_days(fact)
        return
    for text in fact if name in _LISTS else (fact,):
        rule, example = _RULES.get(name, _TEXT)
        if not (isinstance(text, str) and text.strip() and rule.fullmatch(text)):
            raise InputError(f"{name} (in [catalogue]) must be {example}, got {text!r}.")


def _check_days(days: Any) -> None:  # noqa: ANN401  whatever a caller wrote
    try:
        first, final = (date.fromisoformat(day) for day in days)
    except (TypeError, ValueError):
        first, final = date.max, date.min
    if first > final:
        raise InputError(
            "temporal (in [catalogue]) must be the first and the last day, such as 2024-01-01 and "
            f"2024-01-31, got {days!r}."
        )


# Portals show these texts on one line, except for the description.
_TEXT = re.compile(r"[^\x00-\x1f\x7f]+"), "text on one line"
_ADDRESS = _URL, 'a URL, such as "https://data.example.org/buses"'
_RULES = {
    "description": (re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]+"), "text"),
    "language": (_LANGUAGE, 'a language tag, such as "en"'),
    "theme": (
        re.compile(f"{'|'.join(THEMES)}|{_URL.pattern}"),
        'a code of the EU\'s data themes, such as "TRAN", or a URL',
    ),
    "contact": (re.compile(f"{_EMAIL.pattern}|{_URL.pattern}"), "an e-mail address or a URL"),
    "license": (
        re.compile(f"{_SPDX.pattern}|{_URL.pattern}"),
        'an SPDX identifier, such as "CC-BY-4.0", or a URL',
    ),
    "publisher_url": _ADDRESS,
    "landing_page": _ADDRESS,
    "spatial": _ADDRESS,
    "base_url": _ADDRESS,
}
