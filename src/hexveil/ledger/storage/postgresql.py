"""A connection to PostgreSQL that gives up when the server is silent for too long.

The server's own timeouts end what runs too long or waits for a lock. A server that is stopped, or
a network that drops packets, cannot tell; so the connection itself keeps a limit and then closes.
What was sent last may have happened or not, as after a crash: the next run finds out.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator

    from hexveil.ledger.storage.timeouts import Patience


def settings(patience: Patience) -> dict[str, str | int]:
    """Return parameters of a connection that the address may say otherwise."""
    return {
        "connect_timeout": math.ceil(patience.lock),
        "keepalives": 1,
        "keepalives_idle": math.ceil(patience.answer / 2),
        "keepalives_interval": math.ceil(patience.answer / 8),
        "keepalives_count": 4,
        "tcp_user_timeout": math.ceil(1000 * patience.answer),
    }


def limits(patience: Patience) -> tuple[str, ...]:
    """Return the statements that tell a transaction the server's own timeouts."""
    return tuple(
        f"SET LOCAL {name} = {math.ceil(1000 * seconds)}"
        for name, seconds in (
            ("statement_timeout", patience.answer),
            ("lock_timeout", patience.lock),
            ("idle_in_transaction_session_timeout", 10 * patience.answer),
        )
    )


def open_connection(patience: Patience, parameters: dict[str, Any]) -> psycopg.Connection[Any]:
    """Return a new connection with a limit to the server's silence."""

    class Limited(psycopg.Connection[Any]):
        def wait(self, gen: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401  as it overrides
            try:
                return super().wait(_limited(gen, patience.silence), *given, **named)
            except psycopg.errors.ConnectionTimeout:
                # Whatever is asked next, a rollback too, must fail at once.
                self.pgconn.finish()
                raise

    return Limited.connect(**parameters)


def _limited(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Pass on the steps of an exchange; raise ConnectionTimeout after a silence.

    The driver sends each step what it is ready for: nothing, at intervals, while there is silence.
    """
    last = time.monotonic()
    try:
        step = next(steps)
        while True:
            ready = yield step
            now = time.monotonic()
            if ready:
                last = now
            elif now - last > seconds:
                raise psycopg.errors.ConnectionTimeout(f"no answer in {seconds:g} s")
            step = steps.send(ready)
    except StopIteration as end:
        return end.value
