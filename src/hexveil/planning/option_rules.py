"""Rules of the options of `plan` that go together: one table, for refusals and the reference page.

What is asked for is a set of words: names of options that were given, options with their value
(`method="joint"`), and what decides which of them have a meaning (private presence, several value
columns, the kind of statistics). A rule refuses some of these words beside others, or without them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

PRESENCE = 'protect="presence"'
SEVERAL = "several value columns"
SHAPES = "quantiles, shares or histograms"
UNITS, UNITS_ALONE = "numbers of units beside others", "numbers of units alone"
VARIANCES, BOTH = "variances", "means and variances"
STAGED = "a mechanism with stages of its own"
DELTA_WITHIN = "delta within epsilon"
RANGES = ('clipping_range="private"', 'clipping_range="per-cell"')


@dataclass(frozen=True)
class Rule:
    """Words that are refused, beside others or without them.

    Attributes
    ----------
    words : tuple of str
        Of what is asked for: each is refused.
    why : str
        Why, for the reference page.
    beside : tuple of str
        Refused beside any of these.
    without : tuple of tuple of str
        Refused unless all of one of these are asked for.
    company : str
        What the words go with, if other words say it better than `without`.
    way_out : str
        What to do.
    sentence : str
        In place of the usual sentence.
    """

    words: tuple[str, ...]
    why: str
    beside: tuple[str, ...] = ()
    without: tuple[tuple[str, ...], ...] = ()
    company: str = ""
    way_out: str = "leave it out"
    sentence: str = ""

    def refused(self, terms: Collection[str]) -> str | None:
        """Return the first word that is refused, if any."""
        excluded = any(word in terms for word in self.beside)
        lacks = bool(self.without) and not any(set(subset) <= set(terms) for subset in self.without)
        if not (excluded or lacks):
            return None
        return next((word for word in self.words if word in terms), None)

    def goes_with(self, terms: Collection[str]) -> str:
        """Return the company of the words, with the option that is in its place."""
        method = next((word for word in terms if word.startswith("method=")), "")
        beside = next((spoken(word) for word in self.beside if word in terms), "")
        return self.company.format(method=method.removeprefix("method="), beside=beside)

    def refusal(self, word: str, terms: Collection[str], describe: Callable[[str], str]) -> str:
        """Return the sentence that refuses a word."""
        if self.sentence:
            return self.sentence.format(option=word)
        option = describe(word) if word.isidentifier() else spoken(word)
        if self.company:
            return f"{option} goes with {self.goes_with(terms)}; {self.way_out}."
        beside = next(item for item in self.beside if item in terms)
        return f"{option} has no meaning with {beside}; {self.way_out}."

    @property
    def partners(self) -> str:
        """The partners of the words, or those that they exclude, for the reference page."""
        alone = " or ".join(" with ".join(map(spoken, subset)) for subset in self.without)
        excluded = ", ".join(map(spoken, self.beside))
        return f"only with {alone}" if alone else f"not with {excluded}"


def spoken(word: str) -> str:
    """Return a word as a sentence has it.

    Examples
    --------
    >>> spoken('method="joint"'), spoken('protect="presence"'), spoken("delta")
    ('method "joint"', 'protect="presence"', 'delta')
    """
    return word if word == PRESENCE else word.replace("=", " ", 1)


def _rules() -> Iterator[Rule]:
    """Yield the rules of option_rules.toml, in the order in which they are looked at."""
    table = tomllib.loads((files(__package__) / "option_rules.toml").read_text("utf-8"))
    for entry in table["rule"]:
        without = tuple(map(tuple, entry.pop("without", ())))
        words, beside = (tuple(entry.pop(name, ())) for name in ("words", "beside"))
        yield Rule(words, beside=beside, without=without, **entry)


RULES = tuple(_rules())


def broken_rules(terms: Collection[str]) -> Iterator[tuple[Rule, str]]:
    """Yield the rules that are broken, each with the word that it refuses."""
    for rule in RULES:
        word = rule.refused(terms)
        if word is not None:
            yield rule, word


def refuse(
    terms: Collection[str],
    describe: Callable[[str], str] = str,
    only: Collection[str] | None = None,
) -> None:
    """Refuse options that do not go together, or `only` these words.

    `describe` adds where an option was given.

    Raises
    ------
    InputError
        With what the first such option goes with.
    """
    for rule, word in broken_rules(terms):
        if only is not None and word not in only:
            continue
        raise InputError(rule.refusal(word, terms, describe))


def range_needs(terms: Collection[str], word: str) -> str | None:
    """Return the option that a clipping range requires and a request lacks; None if it has all."""
    others = {item for item in terms if not item.startswith("clipping_range=")}
    broken = broken_rules({*others, word})
    return next((rule.goes_with(terms) for rule, result in broken if result == word), None)
