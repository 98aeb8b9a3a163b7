"""Options of `plan`: each is stated once, and one table says which go together."""

import inspect
from dataclasses import fields

import pytest

import hexveil as hv
from hexveil.config.fields import FIELDS, SECTIONS
from hexveil.planning.plan_arguments import WORDS, PlanArguments
from hexveil.planning.request import (
    DELTA_WITHIN,
    RULES,
    SEVERAL,
    UNITS_ALONE,
    broken_rules,
)

OPTIONS = {one.name: one for one in fields(PlanArguments)}
MAPS = hv.Labels("ward", values=["a", "b", "c"])


def test_signature_and_run_file_have_the_options():
    """`plan` takes them by name; a run file has them in [plan], [privacy] and [values]."""
    parameters = inspect.signature(hv.plan).parameters
    assert [*parameters] == ["source", *OPTIONS]
    for name, option in OPTIONS.items():
        assert parameters[name].default == option.default
        assert f"\n{name} : " in inspect.getdoc(hv.plan)
    assert set(SECTIONS["plan"]) <= set(OPTIONS)
    assert set(OPTIONS) - set(SECTIONS["plan"]) == {
        "bounds", "advise", "fleet", "delta", "history",
    }  # fmt: skip
    plan = {name: field for (_, name), field in FIELDS.items() if name in WORDS}
    assert all(tuple(plan[name].choices) == words for name, words in WORDS.items())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.why[:30])
def test_each_rule_refuses_in_one_sentence_and_has_a_reason(rule):
    """Of the words of a rule, beside what excludes them or without what they need, each is."""
    asked = {*rule.beside, 'method="joint"'}
    for word in rule.words:
        assert rule.refused({word} if not rule.beside else {word, rule.beside[0]}) == word
        sentence = rule.refusal(word, asked, lambda name: f"{name} (in [plan])")
        assert sentence.endswith(".")
        assert "{" not in sentence
    assert rule.why.endswith(".")
    for company in rule.without:
        assert rule.refused({*rule.words, *company}) is None


def test_a_rule_is_about_words_that_are_asked_for():
    """No rule has a word that nothing asks for: it would refuse nothing."""
    words = {word for rule in RULES for word in (*rule.words, *rule.beside)}
    words |= {word for rule in RULES for some in rule.without for word in some}
    named = {f'{name}="{word}"' for name in WORDS for word in WORDS[name]} | set(OPTIONS)
    others = {word for word in words - named if not word.startswith("--")}
    assert others == {
        'protect="presence"', SEVERAL, UNITS_ALONE, DELTA_WITHIN, "numbers of units beside others",
        "quantiles, shares or histograms", "variances",
        "a mechanism with stages of its own", f"{SEVERAL} of quantiles, shares or histograms",
        f'{SEVERAL} with protect="presence"',
    }  # fmt: skip


def test_defaults_break_no_rule():
    """Neither alone nor under either privacy model, with each kind of statistics."""
    for statistics in (None, "p50", ("mean", "sd")):
        assert [*broken_rules(PlanArguments(epsilon=1, statistics=statistics).terms())] == []
    private = PlanArguments(epsilon=1, fleet=9, statistics=("mean", "users"), weights={"users": 2})
    assert [*broken_rules(private.terms(['protect="presence"']))] == []


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Return records of 60 users in three wards, counted by bin."""
    file = tmp_path_factory.mktemp("records") / "records.csv"
    rows = [f"{user},{ward},{30 + user % 7}" for user in range(60) for ward in "abc"]
    file.write_text("\n".join(["user,ward,speed", *rows]))
    return hv.read(
        file, user="user", value="speed", bounds=(0, 60), cells=hv.Labels("ward"),
        statistics=("p50", "share<30"), max_bad_rows=0.1, repeats="keep",
        accept_single_records=True, select=hv.Select(min_users=1),
    )  # fmt: skip


def test_distributions_are_planned_within_target_errors(dataset):
    """The least ε of two figures is taken: a little less, and a prediction is above its target."""
    goals = {"p50": 4, "share<30": "5%"}
    plan = hv.plan(dataset, statistics=("p50", "share<30"), target_error=goals, advise=False)
    epsilon = float(plan.requested_epsilon)
    assert epsilon == float(f"{epsilon:.1e}")

    def errors(asked):
        at = hv.plan(dataset, statistics=plan.statistics, epsilon=asked, advise=False)
        return [error.error for error in at.statistic_errors]

    within = lambda found: found[0] <= 4 and found[1] <= 0.05  # noqa: E731
    assert within(errors(epsilon))
    step = 10.0 ** (int(f"{epsilon:.1e}".split("e")[1]) - 1)
    assert not within(errors(round(epsilon - step, 6)))
    with pytest.raises(hv.InputError, match="must name p50 and share<30, got p50"):
        hv.plan(dataset, statistics=("p50", "share<30"), target_error={"p50": 2})
    with pytest.raises(hv.InputError, match="no epsilon up to 100 is predicted to meet"):
        hv.plan(dataset, statistics="p50", target_error="0.0001%")


@pytest.mark.parametrize(
    ("statistics", "goals"), [(None, 3), (("mean", "users"), {"mean": "5%", "users": 40})]
)
def test_private_presence_is_planned_within_target_errors(statistics, goals):
    """As for an ε that is named: the expected errors are within the targets."""
    facts = hv.declare(
        user="user", value="speed", bounds=(0, 60), cells=MAPS, protect="presence",
        statistics=statistics or (),
    )  # fmt: skip
    options = {"fleet": 4000, "statistics": statistics, "advise": False}
    plan = hv.plan(facts, target_error=goals, **options)
    assert plan.expected[0] <= 3
    named = hv.plan(facts, epsilon=plan.epsilon, **options)
    assert named.figures() == plan.figures()
    less = hv.plan(facts, epsilon=float(plan.epsilon) * 0.89, **options)
    counts = less.prediction.counts
    assert less.expected[0] > 3 or (counts is not None and counts.count_error > 40)
