"""Options of `plan`: each is stated once, and one table says which go together."""

import inspect
from dataclasses import fields

import pytest

import hexveil as hv
from hexveil.config.field_types import CHOICES
from hexveil.config.fields import SECTIONS
from hexveil.planning.plan_arguments import WORDS, PlanArguments
from hexveil.planning.request import (
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
        assert f"    {name} : " in hv.plan.__doc__
    assert set(SECTIONS["plan"]) <= set(OPTIONS)
    assert set(OPTIONS) - set(SECTIONS["plan"]) == {
        "bounds", "advise", "fleet", "user_cap", "delta", "history",
    }  # fmt: skip
    assert all(CHOICES[name] == words for name, words in WORDS.items())


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
        'protect="presence"', SEVERAL, UNITS_ALONE, "numbers of units beside others",
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
