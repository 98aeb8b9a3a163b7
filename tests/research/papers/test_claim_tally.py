"""Tally of claims: restatements and repeated trials count once, kinds are apart."""

from dataclasses import replace

import pytest

from hexveil_research.papers.claim_tally import KINDS, distinct, kind, tally
from hexveil_research.papers.rw.rw_claims import of_rw
from hexveil_research.papers.study import Claim

PRINTED = Claim("WC", "Section IV-D, figure 2", "AKMV errs more (uniform)", "1.1", holds=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "printed"),
        ({"reading": "corrected"}, "corrected"),
        ({"basis": "other records"}, "other records"),
        ({"basis": "by construction"}, "by construction"),
        ({"reading": "ours"}, "not stated"),
        ({"reading": "ours", "basis": "other records"}, "not stated"),
        ({"reading": "corrected", "basis": "other records"}, "corrected"),
    ],
)
def test_kinds(changes, expected):
    """A claim that only hexveil makes is none of a paper, whatever it was tried on."""
    assert kind(replace(PRINTED, **changes)) == expected
    assert expected in KINDS


def test_a_restated_claim_counts_once():
    """RW's restatement of IOT's claim adds nothing; a claim of RW's own does."""
    iot = Claim("IOT", "Lemma III.2", "half of OPT", "0.6", holds=False)
    own = Claim("RW", "Section VI", "not typical", "1.2", holds=True)
    claims = [iot, of_rw(iot), of_rw(own)]
    assert [claim.restated for claim in claims] == [False, True, False]
    assert tally(claims) == {"printed": {"fails": 1, "holds": 1}}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((True, True), "holds"),
        ((True, False), "fails"),
        ((True, None), "not tried"),
        ((None, False), "fails"),
    ],
)
def test_a_statement_holds_where_it_holds_everywhere(verdicts, expected):
    """One statement on several records fails if it fails on any of them."""
    places = ("Section IV-D, figure 2", "Section IV-D, figure 3")
    subjects = ("uniform", "bimodal")
    claims = [
        replace(PRINTED, place=place, says=f"AKMV errs more ({subject})", holds=holds)
        for place, subject, holds in zip(places, subjects, verdicts, strict=True)
    ]
    assert list(distinct(claims).values()) == [expected]


def test_other_statements_stay_apart():
    """Two sentences, two papers or two readings are not merged."""
    claims = [
        PRINTED,
        replace(PRINTED, says="AKMV errs less (uniform)"),
        replace(PRINTED, paper="IOT"),
        replace(PRINTED, reading="corrected"),
        replace(PRINTED, place="Lemma III.1"),
    ]
    assert len(distinct(claims)) == 5
