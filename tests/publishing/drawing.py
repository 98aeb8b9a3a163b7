"""Private stages run without a ledger, and what each hands to the noise door."""

from hexveil.mechanisms import range_quantiles
from hexveil.publishing.stages import execute


class AtOnce:
    """Measures and draws each stage when it is asked for, and keeps nothing."""

    def result(self, stage):
        """Return the stage's result, drawn now."""
        draw = stage.measure()
        result = draw()
        assert result.size == stage.entries
        return result


def drawn(stages):
    """Return what a plan's stages find."""
    return execute(stages, AtOnce())


def interval_of(booking, dataset, plan):
    """Return the ends that a booked release of one interval found, in quanta."""
    interval, facts = plan.allocation.clipping_range, dataset.public
    asked = range_quantiles.ballot(facts, interval.quantiles, interval.epsilon)
    return range_quantiles.interval(
        booking.stages["interval"], asked, facts.lattice.span_quanta, interval.widening
    )
