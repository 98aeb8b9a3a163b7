"""RW's claims: IOT's verdicts under RW's numbers, and what RW alone states."""

import pytest

from hexveil import theory
from hexveil_research.papers.iot import iot_claims as iot
from hexveil_research.papers.iot import lemmas
from hexveil_research.papers.rw import rw_claims
from hexveil_research.papers.study import Setting

FEW = Setting(trials=200)
CELLS = lemmas.instances(4, 25)
FAILING = {
    "Appendix B",
    "Appendix D",
    "Appendix D, Algorithm 2 of [17]",
    "Proposition V.1",
    "Lemma V.2",
    "Proposition V.2",
    "Lemma VI.1",
    "Section VI, eq. (2) to (4)",
    "Section VI, eq. (3)",
    "Lemma VI.2",
    "Section VI, procedure after Lemma VI.2",
    "Section VI, remark",
}


def made(cells):
    """Return the claims on so many random cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rw_claims, "instances", lambda seed: lemmas.instances(seed, cells))
        return rw_claims.stated(FEW).claims


@pytest.fixture(scope="module")
def found():
    return made(40)


@pytest.mark.slow
def test_the_verdicts_on_eight_cells_are_those_of_the_errata():
    """The verdicts do not need many cells."""
    check_verdicts(made(8))


@pytest.mark.slow
def test_the_verdicts_are_those_of_the_errata(found):
    """What is printed wrong fails, everything else holds, and what is put right holds."""
    check_verdicts(found)


def check_verdicts(found):
    """Assert that claims hold and fail as the errata say."""
    assert {claim.place for claim in found if claim.verdict == "fails"} == FAILING
    assert not [c for c in found if c.verdict != "holds" and c.reading != "as printed"]
    right = {claim.place for claim in found if claim.reading == "corrected"}
    assert right == FAILING | {"Section VI, eq. (4)"}


@pytest.mark.slow
def test_claims_are_rws(found):
    """RW's name and words, one line of text each, no two the same."""
    assert {claim.paper for claim in found} == {"RW"}
    text = " ".join(f"{claim.place} {claim.says} {claim.measured}" for claim in found)
    assert not [number for number in rw_claims.WORDS if number in text]
    assert "\n" not in text
    assert len({(claim.place, claim.says) for claim in found}) == len(found)


@pytest.mark.slow
def test_shared_claims_have_iots_verdicts(found):
    """A check gives one verdict, whichever paper it is for."""
    there = [rw_claims.of_rw(claim) for claim in iot.scaled(FEW, lemmas.instances(FEW.seed, 40))]
    here = {(claim.says, claim.measured, claim.verdict) for claim in found}
    assert {(claim.says, claim.measured, claim.verdict) for claim in there} <= here


@pytest.mark.slow
def test_a_better_cap_is_seen():
    """The best cap in place of eq. (4) would hold; the smallest one is worse than the median."""

    def best(counts, epsilon, noise):
        return theory.exact_cap(counts, epsilon, noise)

    printed, right = rw_claims.better_claims(CELLS, best)
    assert printed.holds
    assert right.holds
    assert not rw_claims.better_claims(CELLS, lambda counts, *_: min(counts))[0].holds


def test_caps_that_ignore_the_noise_are_seen():
    """Counting the mean where the standard deviation is meant gives other caps."""
    assert rw_claims.noise_claim().holds
    assert not rw_claims.noise_claim(lambda counts, e, _: theory.minimax_cap(counts, e)).holds
