"""Expected errors of days to come: of every kind of statistic that archives remember."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.model.areas import Polygon
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.publishing.memory.planned_days import expected_errors
from hexveil.records.read import declare

USERS, ROUTES = 60, ("4", "15", "22")
AREA = hv.Cells(5, "6h", "Asia/Kolkata", "pooled", area=Polygon.of_box(72.7, 21.0, 73.0, 21.4))
NAMES = {"user": "bus", "value": "speed", "bounds": (0, 60)}


def facts_of(*statistics):
    """Return public facts of an invented day: every bus on every route."""
    each = [np.repeat(np.arange(USERS), len(ROUTES)), np.tile(ROUTES, USERS)]
    table = pa.table({"bus": each[0], "route": each[1], "speed": 20.0 + each[0] % 7})
    options = {"statistics": statistics} if statistics else {}
    return hv.read(table, cells=hv.Labels("route"), **NAMES, **options).public


def errors(facts, n_days=8, error=None, **asked):
    """Return the daily epsilon and the expected errors."""
    made = expected_errors(facts, PlanArguments(**{"epsilon": 1, **asked}), n_days, error)
    return made.epsilon, made.errors


KINDS = {
    "mean": lambda: (facts_of(), {}),
    "p50": lambda: (facts_of("p50"), {"statistics": ("p50",), "estimator": "ranks"}),
    "share<22": lambda: (facts_of("share<22"), {"statistics": ("share<22",)}),
    "presence": lambda: (
        declare(cells=AREA, protect="presence", time="t", lat="y", lon="x", **NAMES),
        {"fleet": 5000},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_errors_fall_by_day_and_with_epsilon(kind):
    """No day is worse than the day before; the least epsilon for an error reaches it, and fits."""
    facts, asked = KINDS[kind]()
    _, made = errors(facts, **asked)
    assert len(made) == 8
    assert (np.diff(made[:5]) < 0).all()
    wanted = 1.05 * made[-1]
    least, reached = errors(facts, error=wanted, **asked)
    assert reached[-1] <= wanted
    assert least <= 1
    assert errors(facts, **asked | {"epsilon": least / 2})[1][-1] > wanted


def test_a_share_by_ranks_is_off_as_a_day_alone_predicts():
    """A share moves by 1.5 of a mean rank, and an indicator by itself."""
    facts, asked = KINDS["share<22"]()
    alone = errors(facts, **asked)[1]
    assert errors(facts, **asked, estimator="ranks")[1] == pytest.approx([1.5 * e for e in alone])


def test_at_a_large_epsilon_weights_of_declared_units_are_what_is_left():
    """Then days of private presence are off by what a day alone is, less what they learn of it."""
    facts, asked = KINDS["presence"]()
    alone = hv.plan(facts, epsilon=100, advise=False, **asked).single.prediction.map.error
    assert 0.7 * alone < errors(facts, **asked | {"epsilon": 100})[1][-1] < alone


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("mean", {"statistics": ("mean", "p50")}, "of one statistic"),
        ("mean", {"statistics": ("variance",)}, '"mean", a quantile or a share'),
        ("p50", {"statistics": ("histogram",)}, '"mean", a quantile or a share'),
        ("p50", {"estimator": "bins"}, "measured by bins"),
        ("mean", {"error": 1e-9}, "no epsilon is expected"),
    ],
)
def test_what_is_not_remembered_is_refused(kind, change, message):
    """The message says what can be planned."""
    facts, asked = KINDS[kind]()
    with pytest.raises(InputError, match=message):
        errors(facts, **asked | change)
