"""Tally of claims: each statement once, by kind and verdict.

A statement that two papers make, or that was tried on several records, is one statement: it fails
if it fails anywhere, is not tried or undecided if it is so anywhere else, and holds otherwise.
For a page, `markdown_table(claims)` is the whole tally. `study_folders.claims(folder, study)` are
the claims of a study in a folder of `hexveil reproduce`, and `study_folders.claim_of(row)` that of
a row of claims.csv.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hexveil_research.papers.study import Claim, Verdict

Kind = Literal["printed", "corrected", "other records", "by construction", "not stated"]

KINDS: dict[Kind, str] = {
    "printed": "as printed",
    "other records": "as printed, on other records than the paper's",
    "by construction": "true by construction",
    "corrected": "corrected by the errata",
    "not stated": "not stated by the papers",
}
"""Kinds in the order of the table, with their names for the reader."""
_SEVEREST: tuple[Verdict, ...] = ("fails", "not tried", "undecided", "holds")


@dataclass(frozen=True)
class Statement:
    """A statement, made once however many papers make it and on however many records.

    Attributes
    ----------
    paper : str
        The first paper that makes it.
    places : tuple of str
        All places, those of a second paper with its name.
    says : str
        The statement, without the records it was tried on.
    kind : str
    verdict : str
    """

    paper: str
    places: tuple[str, ...]
    says: str
    kind: Kind
    verdict: Verdict


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


def statements(claims: Sequence[Claim]) -> tuple[Statement, ...]:
    """Return the distinct statements of claims, in their order.

    Parameters
    ----------
    claims : sequence of Claim
        Records and subjects stand in parentheses at the end of a claim's words.
    """
    groups: dict[tuple[str, str, Kind], list[Claim]] = {}
    for claim in claims:
        # A restatement has the words of the first paper, which is IOT for all of RW's.
        paper, says = ("IOT", claim.restates) if claim.restates else (claim.paper, claim.says)
        without_records = re.sub(r" \([^()]*\)$", "", says)
        groups.setdefault((paper, without_records, kind(claim)), []).append(claim)
    return tuple(
        _statement(paper, says, its_kind, alike)
        for (paper, says, its_kind), alike in groups.items()
    )


def _statement(paper: str, says: str, its_kind: Kind, alike: Sequence[Claim]) -> Statement:
    places = dict.fromkeys(
        claim.place if claim.paper == paper else f"{claim.paper} {claim.place}" for claim in alike
    )
    verdicts = {claim.verdict for claim in alike}
    return Statement(
        paper,
        tuple(places),
        says,
        its_kind,
        next(verdict for verdict in _SEVEREST if verdict in verdicts),
    )


def tally(claims: Sequence[Claim]) -> dict[Kind, Counter[Verdict]]:
    """Return the number of statements of each kind by verdict; kinds without any are left out.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> iot = Claim("IOT", "Lemma V.1", "arrays are full", "", holds=False)
    >>> rw = Claim("RW", "Lemma VI.1", "arrays fill", "", holds=False, restates="arrays are full")
    >>> tally([iot, rw])
    {'printed': Counter({'fails': 1})}
    """
    counts: dict[Kind, Counter[Verdict]] = {name: Counter() for name in KINDS}
    for statement in statements(claims):
        counts[statement.kind][statement.verdict] += 1
    return {name: counter for name, counter in counts.items() if counter}


def markdown_table(claims: Sequence[Claim]) -> str:
    """Return the tally as a table in Markdown: kinds by verdict.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> print(markdown_table([Claim("IOT", "Lemma V.1", "", "", holds=False)]))
    | statements | holds | fails | undecided | not tried |
    |---|---:|---:|---:|---:|
    | as printed | 0 | 1 | 0 | 0 |
    """
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    rows = [
        f"| {KINDS[name]} | {' | '.join(str(counter[verdict]) for verdict in verdicts)} |"
        for name, counter in tally(claims).items()
    ]
    head = f"| statements | {' | '.join(verdicts)} |"
    return "\n".join([head, f"|---|{'---:|' * len(verdicts)}", *rows])
