"""Faults put into the program one at a time, each with the test that must find it.

A mutant names what it replaces, so that a rebuilt part must bring its mutants along: a name that is
gone fails. To add one, write what it breaks and name the test that kills it; if none does, write
that first.
"""

import importlib
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count

import numpy as np

import hexveil as hv
from hexveil.ledger import Booking, drawing
from publishing import test_cell_range_release

LAW = "attack.test_exact_law:test_what_is_lost_is_within_what_is_booked_and_not_far_below"
CHARGED = "loses .* and is charged"
DOOR = "attack.test_kinds_at_the_door:test_a_unit_loses_what_it_is_charged_and_no_more"
ACCOUNTED = ("clip-user", "delta", "squares", "variance")
"""Kinds of releases that booking and meter charge by the same statement of moves."""
TIMES = "a unit loses .* times its charge"
STAGES = "publishing.test_cell_range_release:test_a_"
STOPPED = (
    "publishing.test_every_kind:"
    "test_a_release_that_stops_after_any_stage_goes_on_from_what_is_stored"
)
MIDWAY = f"{STAGES}draw_that_stops_midway_is_lost_and_paid_again"
SHOWN = f"{STAGES}release_in_stages_is_booked_once_and_shown_again"
METER = "hexveil.mechanisms.sensitivity_report:Meter.authorise"
METERED = "would cost a unit more than was booked"
"""What a release says of scales below those that were booked."""


@dataclass(frozen=True)
class Made:
    """Something that a test is given, made of its monkeypatch and temporary folder."""

    made: object


PATCHED = {"monkeypatch": Made(lambda monkeypatch, _: monkeypatch)}
"""For a test that patches."""


def fleet(*_):
    """Return a fleet and its plan with ranges of cells."""
    return test_cell_range_release.planned_fleet()


def book(_, folder):
    """Return a ledger with room for many releases."""
    return hv.Ledger(folder / "ledger.sqlite", dataset="buses", budget=100_000)


RELEASED = {"fleet": Made(fleet), "book": Made(book)}
"""For a test of whole releases in steps."""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes
    ----------
    place : str
        "module:name" of what is replaced; the name may be that of a class and its attribute.
    broken : callable
        From what stands there to what is put there.
    killer : str
        "module:name" of the test.
    given : mapping
        What the test is given.
    says : str or None
        What the failure says, a pattern.
    metered : bool
        Whether the release itself refuses to draw. The test must find the fault without that, too.
    """

    place: str
    broken: object
    killer: str
    given: dict = field(default_factory=dict)
    says: str | None = None
    metered: bool = False

    def put(self, monkeypatch):
        """Put the fault in its place."""
        owner, name = found(self.place)
        monkeypatch.setattr(owner, name, self.broken(getattr(owner, name)))

    def test(self, monkeypatch, folder):
        """Run the test that must fail."""
        owner, name = found(self.killer)
        given = {
            key: one.made(monkeypatch, folder) if isinstance(one, Made) else one
            for key, one in self.given.items()
        }
        getattr(owner, name)(**given)


def found(place):
    """Return the module or class, and the name in it, that a place says."""
    module, _, path = place.partition(":")
    owner, *names = importlib.import_module(module), *path.split(".")
    for name in names[:-1]:
        owner = getattr(owner, name)
    return owner, names[-1]


# ---- what is broken ----


def halved(real):
    """Return the same function with half of what it returned."""
    return lambda *given, **more: real(*given, **more) / 2


def halved_property(real):
    """Return the same property with half of what it was."""
    return property(lambda self: real.fget(self) / 2)


def for_twice_the_share(real):
    """Return the noise that a promise of twice the amount buys."""
    return lambda self, *weights: real(self.part(2), *weights)


def doubled(real):
    """Return the same function with twice what it returned."""
    return lambda *given, **more: 2 * real(*given, **more)


def down(_):
    """Return what rounds a rational number down to a double."""

    def float_down(exact):
        near = float(exact)
        return near if Fraction(near) < Fraction(exact) else float(np.nextafter(near, 0.0))

    return float_down


def after_the_draw(real):
    """Return `Ledger.reserve` that says it booked; what it should book is booked when stored."""

    def reserve(self, request, losses, **more):
        begin, store, names = type(self).begin_draw, type(self).store, []

        def begun(_request, stage, _entries):
            names.append(stage)
            return 0

        def stored(_request, _entry, result):
            del self.begin_draw, self.store
            real(self, request, losses, **more)
            store(self, request, begin(self, request, names[0], result.size), result)

        self.begin_draw, self.store = begun, stored
        return Booking(request, "reserved", Fraction(0), {}, "", {}, 0, "")

    return reserve


def marked_late(_):
    """Return `LedgerJournal.draw_once` that draws, and says that it began when it stores."""

    def draw_once(self, name, entries, draw):
        row = draw()
        entry = self._ledger.begin_draw(self._request, name, entries)
        self._ledger.store(self._request, entry, row[0])
        return row

    return draw_once


def stored_at_the_end(_):
    """Return `LedgerJournal.draw_once` that stores nothing before all stages are drawn."""

    def draw_once(self, name, entries, draw):
        ledger, kept = self._ledger, self.__dict__.setdefault("kept", [])
        kept.append((name, entries, draw()))

        def complete(request):
            del ledger.complete
            for one, many, row in kept:
                ledger.store(request, ledger.begin_draw(request, one, many), row[0])
            ledger.complete(request)

        ledger.complete = complete
        return kept[-1][2]

    return draw_once


def drawn_anew(real):
    """Return `LedgerJournal.stored` that finds nothing; what was stored is drawn, and not kept."""

    def stored(self, name, entries):
        def again(_name, _entries, draw):
            del self.draw_once
            return draw()

        if real(self, name, entries) is not None:
            self.draw_once = again

    return stored


def left_empty(_):
    """Return what leaves the row of a result all zero, and says that of such a row."""

    def store_result(_connection, marked, result):
        return drawing.digest(bytes(drawing.ENTRY_BYTES * result.size))

    return store_result


def anew(real):
    """Return ids that are spelled in another way each time that they are asked for."""
    turns = count()

    def ids(self):
        return [one + b".0" * next(turns) for one in real(self)]

    return ids


def by_value(real):
    """Return rules of which one leaves out a few records by their values."""
    return lambda request, *more: [*real(request, *more), (6, "value BETWEEN 40 AND 44")]


def value_first(real):
    """Return the query of one record for each user and time that looks at values before places."""

    def drawn(source, query):
        right, told = f"ORDER BY {', '.join(source.places)}", real(source, query)
        assert right in told, "the query has another order"
        return told.replace(right, "ORDER BY total / n")

    return drawn


def all_the_way(_):
    """Return the charge of both statistics together, without the limit of how far means move."""

    def joint(reach, mean_scale, variance_scale):
        return reach / mean_scale + reach * (1 - reach) / variance_scale

    return joint


def one_less(real):
    """Return moves without the step that a floor may add."""
    return lambda *given, **named: np.maximum(real(*given, **named) - 1.0, 0.0)


# ---- the list ----


def _law(place, broken, name, *, metered=False):
    given = {"name": name, "record_property": print_nothing}
    return Mutant(place, broken, LAW, given, CHARGED, metered=metered)


def _stages(broken, killer, place="hexveil.publishing.booking:LedgerJournal.draw_once", **given):
    return Mutant(place, broken, killer, given | RELEASED)


def _stopped(broken, name):
    given = {"kind": "interval", "tmp_path": Made(lambda _, folder: folder)}
    return Mutant(
        f"hexveil.publishing.booking:LedgerJournal.{name}", broken, STOPPED, given | PATCHED
    )


def print_nothing(*_):
    """Record nothing."""


def _at_the_door(place, kind):
    return Mutant(place, halved, DOOR, {"kind": kind}, TIMES)


def _rounded(module, killer, **given):
    return Mutant(f"hexveil.mechanisms.{module}:round_up", down, killer, given)


MUTANTS = {
    # Sensitivity halved, or noise for half of it: in each mechanism.
    "noise of half the sensitivity of a mean": _law(
        "hexveil.mechanisms.looks.clipped_mean:ClippedMean.scales",
        halved_property,
        "joint",
        metered=True,
    ),
    "a mean twice as steep": _law(
        "hexveil.mechanisms.looks.clipped_mean:ClippedMean.measure", doubled, "per-cell"
    ),
    "a variance twice as steep": _law(
        "hexveil.mechanisms.looks.clipped_variance:_steps", doubled, "joint, variance"
    ),
    "half the charge of a variance": _law(
        "hexveil.mechanisms.looks.clipped_variance:variance_sensitivity_bound",
        halved,
        "joint, variance",
    ),
    "noise of half the sensitivity of a weighted mean": _law(
        "hexveil.mechanisms.looks.weighted_mean:WeightedMean.scales",
        halved,
        "private",
        metered=True,
    ),
    "noise of half the sensitivity of a second moment": _law(
        "hexveil.mechanisms.looks.weighted_variance:laplace_scales",
        halved,
        "global, variance",
        metered=True,
    ),
    "noise of half the sensitivity of the pooled histogram": _law(
        "hexveil.accounting.promise:round_up", halved, "private", metered=True
    ),
    # A promise that buys too little noise, or divides wrongly.
    **{
        f"noise for twice the share of {name}": Mutant(
            f"hexveil.accounting.promise:{name}.noise",
            for_twice_the_share,
            "accounting.test_promise:test_a_move_from_one_number_to_another_costs_two_weights",
            {"delta": delta},
        )
        for name, delta in (("Pure", Fraction(0)), ("Squares", Fraction(1, 10**6)))
    },
    "half of a part of a promise": Mutant(
        "hexveil.accounting.promise:Pure.part",
        lambda real: lambda self, share: real(self, share / 2),
        "accounting.test_promise:test_parts_make_up_the_whole",
    ),
    # Losses stated at half, by booking and meter alike.
    **{
        f"half of each loss: {kind}": _at_the_door("hexveil.accounting.moves:quotient", kind)
        for kind in ACCOUNTED
    },
    # Moves stated at half.
    "half of the moves of a mean": _at_the_door(
        "hexveil.mechanisms.looks.clipped_mean:_half_quanta_moved", "per-cell"
    ),
    "half of the moves of a variance": _at_the_door(
        "hexveil.mechanisms.looks.clipped_variance:_steps_moved", "variance"
    ),
    # A scale rounded down.
    "scale of a mean rounded down": _rounded(
        "looks.clipped_mean",
        "mechanisms.test_clipped_mean:test_noise_scales_are_rounded_up_and_no_further",
    ),
    "scale of a weighted mean rounded down": _rounded(
        "looks.weighted_mean",
        "mechanisms.test_weighted_mean:test_scales_are_rounded_up_and_no_further",
    ),
    "scale of a second moment rounded down": _rounded(
        "looks.weighted_mean",
        "mechanisms.test_weighted_variance:test_scales_are_rounded_up_and_no_further",
    ),
    # The book.
    "booked after the draw": _law("hexveil.ledger:Ledger.reserve", after_the_draw, "joint"),
    "begun after the draw": _stages(marked_late, MIDWAY, call=2),
    "journal skipped until all is drawn": _stopped(stored_at_the_end, "draw_once"),
    "a stored result drawn again": _stopped(drawn_anew, "stored"),
    "a result that is not written": _stages(
        left_empty,
        SHOWN,
        "hexveil.ledger.drawing:store_result",
        tmp_path=Made(lambda _, folder: folder),
    ),
    "an id spelled anew": Mutant(
        "hexveil.records.units:Units.ids",
        anew,
        "attack.test_exact_law:test_releases_of_the_same_units_add_up",
    ),
    "both statistics charged together without the limit": Mutant(
        "hexveil.accounting.privacy_loss:joint_loss",
        all_the_way,
        "accounting.test_privacy_loss:test_user_of_more_than_half",
        {"own": 8, "total": 8, "ratio": 0.05},
    ),
    "the step of a variance not charged": Mutant(
        "hexveil.mechanisms.looks.clipped_variance:_steps_moved",
        one_less,
        "mechanisms.test_clipped_variance:test_the_step_of_the_lattice_is_charged",
    ),
    # The rules of reading.
    "a value used in a rule": Mutant(
        "hexveil.records.duckdb.validation:_selection_tests",
        by_value,
        "attack.test_neighbours:test_no_value_changes_anything_public",
        {"values": "all at random"},
    ),
    "the place of repeats decided by value": Mutant(
        "hexveil.records.duckdb.counting:_drawn",
        value_first,
        "attack.test_neighbours:test_which_place_of_repeats_counts_is_no_matter_of_values",
    ),
}
