"""Texts that people read, rendered from the templates in one folder.

Templates hold whole sentences; code computes values and formats numbers. A name that a template
uses and nobody gave is an error, and so is a value that is None: neither may reach a reader.
Each kind of output escapes the values that are put into a template, and never the template itself:
HTML here, Markdown in publishing/markup.py, plain text not at all.

The content security policy of the page: no requests, and no scripts but the page's own.

Each script and the one style element are allowed by the hash of their text, so that a script or a
style that slipped into the page in some other way, say in a label, is not run. There are no style
attributes: places that depend on numbers are rules of the style element, and what moves is set
through the DOM, which a policy does not judge.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import to_fraction

if TYPE_CHECKING:
    import jinja2


FOLDER = "publishing/templates"
"""Inside the package."""
LANGUAGES = {"en": "English", "de": "Deutsch", "hi": "हिन्दी", "pl": "Polski"}
"""Languages that pages and README.txt can have. Those but English have a folder of templates, whose
files stand in for the English ones; what has no such file is English."""
_COMMA = ("de", "pl")
"""Languages with a decimal comma."""
_NUMBER = re.compile(r"[+\u2212\u00b1<]?\u2009?\d[\d,]*(\.\d+)?(?=$|[\s\u00a0]\D{0,12}$)")
_language: ContextVar[str] = ContextVar("language", default="en")
_LINE_BREAKS = re.compile(r"[ \t\n]+")


@contextlib.contextmanager
def in_language(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Render all templates of the block in the language that a manifest states; yield its code."""
    code = manifest.get("language", "en")
    token = _language.set(code)
    try:
        yield code
    finally:
        _language.reset(token)


def localized(text: str) -> str:
    """Return a number, with or without a unit, as the current language writes it; else the text.

    Examples
    --------
    >>> with in_language({"language": "de"}):
    ...     localized("1,234.5 km/h"), localized("CC BY 4.0")
    ('1\u202f234,5 km/h', 'CC BY 4.0')
    """
    if _language.get() not in _COMMA or not _NUMBER.match(text):
        return text
    return text.replace(",", "\u202f").replace(".", ",", 1)


def environment(escape: Callable[[str], str] | None = None) -> jinja2.Environment:
    """Return the templates of the current language.

    Parameters
    ----------
    escape : callable, optional
        Makes text of the output format from plain text. Without it, values are escaped as HTML.
    """
    return _environment(escape, _language.get())


@cache
def _environment(escape: Callable[[str], str] | None, language: str) -> jinja2.Environment:
    """Return the templates of a language, with an escaping rule for values."""
    import jinja2  # noqa: PLC0415  commands that print no text start without it
    from markupsafe import Markup  # noqa: PLC0415

    def finalized(value: object) -> object:
        if value is None:
            raise ValueError("a template was given no value; give it text or a number.")
        if type(value) in {str, int, float}:
            value = localized(str(value))
        if escape is None or isinstance(value, (Markup, jinja2.Undefined)):
            return value
        # Marked as done, so that the text of a macro is not escaped a second time.
        return Markup(escape(str(value)))  # noqa: S704  escaped for the format at hand

    folders = [FOLDER] if language == "en" else [f"{FOLDER}/languages/{language}", FOLDER]
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("hexveil", name) for name in folders]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "counted": _counted,
        "loss": format_loss,
        "percent": lambda share: f"{float(to_fraction(share, 'a share')):.0%}",
        "rounded_up": format_rounded_up,
        "unit_name": unit_name,
        "with_unit": with_unit,
    }
    return templates


def render_template(
    name: str, values: dict[str, Any], escape: Callable[[str], str] | None = None
) -> str:
    """Return the text of a template with values put into it; see `environment`.

    Raises
    ------
    LookupError
        If the template uses a name that nobody gave.
    """
    with _names():
        return environment(escape).get_template(name).render(values)


def render_sentence(name: str, macro: str, /, **values: Any) -> str:  # noqa: ANN401  any value of a text
    """Return the plain text of one macro of a template, on one line."""
    with _names():
        text = getattr(environment(str).get_template(name).module, macro)(**values)
    return _LINE_BREAKS.sub(" ", str(text)).strip()


@contextlib.contextmanager
def _names() -> Iterator[None]:
    """Raise LookupError for a name that nobody gave, as reading it in Python would."""
    import jinja2  # noqa: PLC0415  see `environment`

    try:
        yield
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def _counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 cell", "2,000 cells"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def squared(unit: str) -> str:
    """Return the square of a unit of measure.

    Examples
    --------
    >>> squared("km/h"), squared("m"), squared("")
    ('(km/h)²', 'm²', '')
    """
    if not unit:
        return ""
    return f"{unit}\u00b2" if unit.isalpha() else f"({unit})\u00b2"


def with_unit(number: str, unit: str) -> str:
    """Return number and unit, kept on one line."""
    return f"{number}\u00a0{unit}" if unit else number


def rounded_up(number: float, digits: int = 3) -> float:
    """Return a positive number rounded up to significant digits, roundings of doubles aside."""
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(number)))
    return math.ceil(number * scale - 1e-9) / scale


def format_rounded_up(number: float | str, digits: int = 3) -> str:
    """Return a positive number rounded up to significant digits, without exponent."""
    # A stranger's decimal text may be too large for a double, which is refused.
    number = float(to_fraction(number, "a number")) if isinstance(number, str) else number
    if not math.isfinite(number) or number <= 0:
        return "unlimited" if number > 0 else str(number)
    rounded = rounded_up(number, digits)
    return f"{rounded:,.{max(0, digits - 1 - math.floor(math.log10(rounded)))}f}"


def format_loss(epsilon: str) -> str:
    """Return a loss as people read it: up to six characters as they are, else rounded up.

    Examples
    --------
    >>> format_loss("0.5"), format_loss("0.999998187338")
    ('0.5', '1.00')
    """
    return epsilon if len(epsilon) <= 6 else format_rounded_up(epsilon)


def unit_name(unit: str) -> str:
    """Return the privacy unit as people call it: the user is a vehicle."""
    return "vehicle" if unit == "user" else unit


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
