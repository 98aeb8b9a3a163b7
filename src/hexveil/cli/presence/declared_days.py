"""`hexveil publish` under private presence: a day's request follows from declarations.

So a day that was published is known without reading its records, and late records alone never make
it another request: the holder declares another version of the records to publish a revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.cli.days import PlannedDay
from hexveil.cli.presence import declared_release, declared_steps
from hexveil.config import arguments
from hexveil.ledger import Ledger
from hexveil.publishing.pipeline import replay_presence
from hexveil.publishing.presence.request_identity import presence_request, request_name

if TYPE_CHECKING:
    from hexveil.config import Run
    from hexveil.publishing import Release


def plan_declared_day(run: Run, *, dry_run: bool) -> PlannedDay:
    """Return the plan of a day; no record is read before it is published.

    Parameters
    ----------
    run : Run
        With the dates of the day.
    dry_run : bool
        Whether a map that says nothing is planned all the same, to show its price.
    """
    account = arguments.ledger_arguments(run, Ledger)
    plan = declared_steps.plan_declared(run, declared_steps.declare_run(run))
    if not dry_run:
        declared_steps.refuse_noise(run, plan)

    def publish(book: Ledger) -> Release:
        stored = replay_presence(plan, book)
        return stored or declared_release.publish_declared(run, plan, account)[0]

    return PlannedDay(
        request=request_name(presence_request(account["dataset"], plan)),
        epsilon=plan.epsilon,
        privacy_unit=plan.facts.privacy_unit,
        publish=publish,
    )
