"""Tally of claims: each statement once, by kind and verdict.

A statement that two papers make, or that was tried on several records, is one statement: it holds
if it holds everywhere, fails if it fails anywhere, and was not tried otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil_research.papers.study import Claim, Verdict

    Statement = tuple[str, str, str, "Kind"]

Kind = Literal["printed", "corrected", "other records", "by construction", "not stated"]

KINDS: dict[Kind, str] = {
    "printed": "as printed",
    "corrected": "corrected by the errata",
    "other records": "as printed, on other records than the paper's",
    "by construction": "true by construction",
    "not stated": "not stated by the papers",
}
"""Kinds in the order of the table, with their names for the reader."""


def kind(claim: Claim) -> Kind:
    """Return the kind of a claim.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> kind(Claim("IOT", "Lemma V.1", "", "", holds=False))
    'printed'
    >>> kind(Claim("IOT", "Figure 2", "", "", holds=True, reading="ours"))
    'not stated'
    """
    if claim.reading == "ours":
        return "not stated"
    if claim.basis == "by construction":
        return "by construction"
    if claim.reading == "corrected":
        return "corrected"
    return "other records" if claim.basis == "other records" else "printed"


def distinct(claims: Sequence[Claim]) -> dict[Statement, Verdict]:
    """Return the verdict of every statement, made once however many records it was tried on.

    Records and subjects stand in parentheses at the end of a claim. A claim that restates another
    paper's counts there; without that one in `claims` it would not count at all.
    """
    verdicts: dict[Statement, list[Verdict]] = {}
    for claim in claims:
        if not claim.restated:
            says = re.sub(r" \([^()]*\)$", "", claim.says)
            # Places differ where one sentence is about several figures.
            place = claim.place if claim.basis == "its own terms" else ""
            statement = (claim.paper, _without_figure(place), says, kind(claim))
            verdicts.setdefault(statement, []).append(claim.verdict)
    return {statement: _together(several) for statement, several in verdicts.items()}


def _without_figure(place: str) -> str:
    """Return a place without the number of a figure."""
    return re.sub(r",? ?[Ff]igures? [0-9]+[ab]?", "", place)


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a statement that was tried several times."""
    if "fails" in verdicts:
        return "fails"
    return "not tried" if "not tried" in verdicts else "holds"


def tally(claims: Sequence[Claim]) -> dict[Kind, Counter[Verdict]]:
    """Return the number of statements of each kind by verdict; kinds without any are left out.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> iot = Claim("IOT", "Lemma V.1", "arrays are full", "", holds=False)
    >>> rw = Claim("RW", "Lemma VI.1", "arrays are full", "", holds=False, restated=True)
    >>> tally([iot, rw])
    {'printed': Counter({'fails': 1})}
    """
    counts: dict[Kind, Counter[Verdict]] = {name: Counter() for name in KINDS}
    for (*_, statement_kind), verdict in distinct(claims).items():
        counts[statement_kind][verdict] += 1
    return {name: counter for name, counter in counts.items() if counter}
