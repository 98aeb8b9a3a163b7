"""The ledger against a model of a few dictionaries, through any order of steps."""

import collections
import tempfile
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import hexveil as hv
from examples import examples
from ledger.books import losses, set_clock

requests = st.tuples(st.sampled_from(["buses", "trams"]), st.sampled_from("rst"))
tenths = st.integers(1, 12).map(lambda number: Fraction(number, 10))
asked = st.dictionaries(st.sampled_from("abc"), tenths, min_size=1)
steps = st.sampled_from(["marked", "measured", "stored", "committed", "returned", "abandoned"])
NEXT = {
    "": ("reserved",), "reserved": ("marked", "returned"), "marked": ("measured", "abandoned"),
    "measured": ("marked", "stored", "abandoned"), "stored": ("committed",), "committed": (),
    "returned": ("reserved",), "abandoned": (),
}  # fmt: skip
"""What can happen to a request, by what happened last."""
DONE = {
    "stored": ("stored", "committed"), "committed": ("committed",), "abandoned": ("abandoned",),
}  # fmt: skip
"""States in which a step has been taken, and may be asked for again."""
START = datetime(2100, 11, 20, tzinfo=UTC)
"""Later than the machine's clock, so that the ledger's own time goes on as the test says."""


class Machine(RuleBasedStateMachine):
    """Two data sets of one account with a budget per day, and what a reader of them sees."""

    compared = 0

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = START
        self.budget, self.spent, self.ever = Fraction(1), {}, {}
        self.state, self.booked, self.shown = {}, {}, {}
        self.entry, self.lost = collections.defaultdict(int), collections.Counter()
        url = Path(self.folder.name) / "ledger.sqlite"
        self.books = {
            name: hv.Ledger(url, dataset=name, budget=1, window="day", account="fleet")
            for name in ("buses", "trams")
        }
        self.time_goes_on(0)

    def teardown(self):
        """Leave nothing behind."""
        self.folder.cleanup()

    def today(self, at=None):
        """Return the balances of the window that is open."""
        return self.spent.setdefault(at or self.now.date(), {})

    @rule(hours=st.integers(0, 30))
    def time_goes_on(self, hours):
        """Let time go on in the ledger, of which the machine's clock is behind."""
        self.now += timedelta(hours=hours)
        set_clock(self.books["buses"], f"{self.now:%Y-%m-%dT%H:%M:%SZ}")

    @rule(budget=tenths)
    def the_budget_is_changed(self, budget):
        """Declare another budget."""
        self.books["buses"].set_budget(budget)
        self.budget = budget

    @rule(request=requests, units=asked)
    def a_release_is_reserved(self, request, units):
        """Book it if all its units can pay, answer if it is known, refuse otherwise."""
        book, state = self.books[request[0]], self.state.get(request, "")
        call = {"privacy_unit": "user", "facts": {}, "plan": b"plan"}
        refusals = {
            "was abandoned": state == "abandoned",
            "for other vehicles": state in ("reserved", "measured")
            and not self.covers(request, units),
            "lost each time": state == "marked" and self.lost[request],
        }
        for said in filter(refusals.get, refusals):
            with pytest.raises(hv.InputError, match=said):
                book.reserve(request[1], losses(book, units), **call)
            return
        if state not in ("", "returned", "marked"):
            assert book.reserve(request[1], losses(book, units), **call).state == state
            return
        at = self.now.date()
        spent = self.today(at)
        if any(spent.get(name, 0) + loss > self.budget for name, loss in units.items()):
            with pytest.raises(hv.BudgetError) as refusal:
                book.reserve(request[1], losses(book, units), **call)
            left = min(self.budget - spent.get(name, 0) for name in units)
            assert refusal.value.requested == max(units.values())
            assert refusal.value.remaining == max(left, 0)
            return
        book.reserve(request[1], losses(book, units), **call)
        self.lost[request] += state == "marked"
        self.shown.pop(request, None)
        self.state[request], self.booked[request] = "reserved", (at, units)
        self.pay(at, units, 1)

    def begin(self, book, request, name):
        """Begin the next stage of a request."""
        stage = f"stage {len(self.shown.get(request, {}))}"
        self.entry[request] = book.begin_draw(name, stage, 1)

    def covers(self, request, units):
        """Return whether these are the units that were charged, and each at least so much."""
        booked = self.booked[request][1]
        return units.keys() == booked.keys() and all(
            loss <= booked[name] for name, loss in units.items()
        )

    def pay(self, at, units, sign):
        """Add to the balances of a day and for ever."""
        for name, loss in units.items():
            for balance in (self.today(at), self.ever):
                balance[name] = balance.get(name, Fraction(0)) + sign * loss

    @rule(request=requests, step=steps, number=st.integers(-5, 5))
    def a_step_is_taken(self, request, step, number):
        """Do it, find it done already, or be refused."""
        book, state = self.books[request[0]], self.state.get(request, "")
        does = {
            "marked": lambda name: self.begin(book, request, name),
            "measured": lambda name: book.store(name, self.entry[request], np.array([number])),
            "stored": book.complete,
            "committed": book.commit,
            "returned": book.cancel,
            "abandoned": book.abandon,
        }[step]
        if step in NEXT[state]:
            does(request[1])
            self.state[request] = step
            if step == "measured":
                stages = self.shown.setdefault(request, {})
                stages[f"stage {len(stages)}"] = (number,)
            if step == "returned":
                self.pay(*self.booked[request], -1)
        elif state in DONE.get(step, ()):
            does(request[1])
        else:
            said = "the release is|another process went on"
            with pytest.raises((hv.InputError, hv.StorageError), match=said):
                does(request[1])

    @invariant()
    def the_spend_is_the_models(self):
        """Window, lifetime, units and exhausted are those of the dictionaries."""
        spent = self.today()
        spend = self.books["trams"].spend()
        assert (spend.budget, spend.window) == (self.budget, max(spent.values(), default=0))
        assert spend.lifetime == max(self.ever.values(), default=0)
        assert spend.units == sum(loss > 0 for loss in spent.values())
        assert spend.exhausted == sum(loss >= self.budget for loss in spent.values())

    @invariant()
    def every_answer_is_the_first(self):
        """Check that what was stored first stands; states are the model's."""
        for request, state in self.state.items():
            found = self.books[request[0]].find(request[1])
            if state in ("returned", "abandoned", "lost"):
                assert found is None
                continue
            assert found.state == state
            assert found.stages == self.shown.get(request, {})
            assert (found.published is None) == (state not in ("stored", "committed"))

    @invariant()
    def the_book_hangs_together(self):
        """Find nothing on a walk through the ledger."""
        assert self.books["buses"].verify().problems == ()
        type(self).compared += 1


@pytest.mark.parametrize(("runs", "most"), [(4, 12), pytest.param(20, 20, marks=pytest.mark.slow)])
def test_any_order_of_steps(runs, most):
    """A book is as the model after every step."""
    before = Machine.compared
    run_state_machine_as_test(Machine, settings=examples(runs, stateful_step_count=most))
    assert Machine.compared > before + runs
