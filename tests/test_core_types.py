"""Numeric tests say what is promised, so that they pass on other processors as on this one."""

from itertools import pairwise

import pytest

from core_types import NEEDED, TESTS, environment, loaded, run

SENSITIVE = (
    "planning/test_stored_plans.py::test_few_steps_from_a_sample_come_near",
    "planning/test_stored_plans.py::test_however_errors_are_rounded_blocks_are_asked_seldom",
    "planning/test_user_weights.py::test_a_search_from_a_neighbour_s_rates_ends_as_low_and_sooner",
    "planning/test_mean_error.py::test_no_descent_takes_more_evaluations_than_its_limits_allow",
    "smoothing/test_variance_components.py",
)
"""Tests of searches whose course depends on late digits: some that are quick."""


@pytest.fixture(params=NEEDED)
def core(request, core_types):
    """Return a core type that child processes can work as."""
    if request.param not in core_types:
        pytest.skip(f"this processor cannot work as {request.param}")
    return request.param


def test_a_process_works_as_the_processor_that_is_asked_for(core):
    """The OpenBLAS of numpy and that of scipy both choose its kernels."""
    assert loaded(core) == {core}


def test_numpy_leaves_out_the_loops_that_a_processor_has_not(core_types):
    """The less a processor has, the fewer loops are left; one with all of them loses none."""
    lacked = [set(environment(core)["NPY_DISABLE_CPU_FEATURES"].split()) for core in core_types]
    assert lacked == sorted(lacked, key=len)
    assert all(some <= more for some, more in pairwise(lacked))


@pytest.mark.slow
def test_what_fails_on_another_processor_is_said(core):
    """The failure names the processor and shows what the process said."""
    with pytest.raises(AssertionError, match=f"on {core}: (.|\n)*too few steps"):
        run(core, "-c", "raise SystemExit('too few steps')")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("core", "threads"), [*((core, 1) for core in NEEDED), ("Haswell", 2)], indirect=["core"]
)
def test_sensitive_tests_pass_on_other_processors(core, threads):
    """Whatever the last digits: what these tests look at is promised."""
    paths = [TESTS / one for one in SENSITIVE]
    quietly = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    told = run(core, "-m", "pytest", *quietly, *paths, threads=threads)
    assert " passed" in told
