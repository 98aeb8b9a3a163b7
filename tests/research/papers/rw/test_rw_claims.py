"""RW's claims: IOT's verdicts under RW's numbers, and what RW alone states."""

import pytest

from hexveil import theory
from hexveil_research.papers.iot import iot_claims as iot
from hexveil_research.papers.iot import surrogate
from hexveil_research.papers.rw import rw_claims
from hexveil_research.papers.study import Setting

FEW = Setting(trials=200)
CELLS = surrogate.instances(4, 25)


@pytest.mark.slow
def test_shared_claims_have_iots_verdicts(monkeypatch):
    """A check gives one verdict, whichever paper it is for."""
    cells = surrogate.instances(FEW.seed, 40)
    monkeypatch.setattr(rw_claims, "instances", lambda seed: surrogate.instances(seed, 40))
    there = [rw_claims.of_rw(claim) for claim in iot.scaled(FEW, cells)]
    here = {(one.says, one.measured, one.verdict) for one in rw_claims.stated(FEW).claims}
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
