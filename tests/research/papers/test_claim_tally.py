"""Tally of claims: restatements and repeated trials count once, kinds are apart."""

from dataclasses import replace

import pytest

from hexveil_research.papers.claim_tally import (
    failure_list,
    markdown_table,
    statements,
    tally,
)
from hexveil_research.papers.rw.rw_claims import of_rw
from hexveil_research.papers.study import Claim

PRINTED = Claim("WC", "Section IV-D, figure 2", "AKMV errs more (uniform)", "1.1", holds=True)


def test_a_restated_claim_counts_once():
    """RW's restatement of IOT's claim adds nothing but its verdict; a claim of RW's own counts."""
    iot = Claim("IOT", "Lemma III.2", "half of OPT, eq. (9)", "0.6", holds=True)
    own = Claim("RW", "Section VI", "not typical", "1.2", holds=True)
    restated = of_rw(iot)
    assert restated.says == "half of OPT, eq. (8)"
    assert [claim.restates for claim in (restated, of_rw(own))] == [iot.says, ""]
    assert tally([iot, restated, of_rw(own)]) == {"printed": {"holds": 2}}
    refuted = replace(restated, place="Lemma B.1", holds=False)
    first, second = statements([iot, refuted, of_rw(own)])
    assert (first.verdict, first.places) == ("fails", ("Lemma III.2", "RW Lemma B.1"))
    assert (second.paper, second.verdict) == ("RW", "holds")
    # Alone in a folder it counts as well.
    assert tally([restated]) == {"printed": {"holds": 1}}


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("holds holds", "holds"),
        ("holds fails", "fails"),
        ("holds tried", "not tried"),
        ("tried fails", "fails"),
        ("undecided holds", "undecided"),
        ("undecided fails", "fails"),
        ("undecided tried", "not tried"),
    ],
)
def test_a_statement_holds_where_it_holds_everywhere(verdicts, expected):
    """One statement on several records fails if it fails on any of them."""
    outcomes = {
        "holds": {"holds": True},
        "fails": {"holds": False},
        "undecided": {"holds": None, "within_noise": True},
        "tried": {"holds": None},
    }
    places = ("Section IV-D, figure 2", "Section IV-D, figure 3")
    subjects = ("uniform", "bimodal")
    claims = [
        replace(PRINTED, place=place, says=f"AKMV errs more ({subject})", **outcomes[verdict])
        for place, subject, verdict in zip(places, subjects, verdicts.split(), strict=True)
    ]
    (statement,) = statements(claims)
    assert (statement.verdict, statement.says) == (expected, "AKMV errs more")
    assert statement.places == places


def test_the_table_counts_statements_and_names_errata():
    """Every kind has a row; what fails has its erratum, by its own words or by its place."""
    fails = Claim("WC", "Eq. (12)", "the error is E", "0.4", holds=False)
    claims = [
        PRINTED,
        fails,
        replace(fails, says="it is E' (ERRATA 5)", holds=True, reading="corrected"),
        Claim("WC", "Eq. (13)", "so is that", "ERRATA 6 has why", holds=False),
        Claim("WC", "Eq. (14)", "nor this", "", holds=False, basis="other records"),
        replace(PRINTED, says="close", holds=None, within_noise=True),
        replace(PRINTED, says="closed", holds=None),
        replace(PRINTED, says="ours", reading="ours"),
        replace(PRINTED, says="searched", basis="by construction"),
    ]
    assert markdown_table(claims).splitlines() == [
        "| statements | holds | fails | undecided | not tried |",
        "|---|---:|---:|---:|---:|",
        "| as printed | 1 | 2 | 1 | 1 |",
        "| as printed, on other records than the paper's | 0 | 1 | 0 | 0 |",
        "| true by construction | 1 | 0 | 0 | 0 |",
        "| corrected by the errata | 1 | 0 | 0 | 0 |",
        "| not stated by the papers | 1 | 0 | 0 | 0 |",
    ]
    assert failure_list(claims).splitlines() == [
        "- WC Eq. (12): the error is E (erratum 5)",
        "- WC Eq. (13): so is that (erratum 6)",
        "- WC Eq. (14): nor this",
    ]
