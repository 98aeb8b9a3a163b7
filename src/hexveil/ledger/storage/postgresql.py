"""A connection to PostgreSQL that gives up when the server is silent for too long.

The server's own timeouts end what runs too long or waits for a lock. A server that is stopped, or
a network that drops packets, cannot tell; so the connection itself keeps a limit and then closes.
What was sent last may have happened or not, as after a crash: the next run finds out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Any

import psycopg

from hexveil.ledger.storage.tables import Timeouts


def connection_parameters(patience: Timeouts) -> dict[str, str | int]:
    """Return the default parameters of a connection, which the address may override."""
    return {
        "connect_timeout": math.ceil(patience.lock),
        "keepalives": 1,
        # Half the patience of silence, then four probes in the other half.
        "keepalives_idle": math.ceil(patience.answer / 2),
        "keepalives_interval": math.ceil(patience.answer / 8),
        "keepalives_count": 4,
        # In milliseconds, unlike the others: unacknowledged data, which keepalives do not cover.
        "tcp_user_timeout": math.ceil(1000 * patience.answer),
    }


def timeout_statements(patience: Timeouts) -> tuple[str, ...]:
    """Return the statements that set the server's own timeouts of a transaction."""
    return tuple(
        f"SET LOCAL {name} = {math.ceil(1000 * seconds)}"
        for name, seconds in (
            ("statement_timeout", patience.answer),
            ("lock_timeout", patience.lock),
            # Longer: between two statements this process prepares the rows of a large fleet.
            ("idle_in_transaction_session_timeout", 10 * patience.answer),
        )
    )


def open_connection(patience: Timeouts, parameters: dict[str, Any]) -> psycopg.Connection[Any]:
    """Return a new connection with a limit to the server's silence."""

    class Limited(psycopg.Connection[Any]):
        def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as it overrides
            try:
                return super().wait(_with_silence_limit(gen, patience.silence), *args, **kwargs)
            except psycopg.errors.ConnectionTimeout:
                # Whatever is asked next, a rollback too, must fail at once.
                self.pgconn.finish()
                raise

    return Limited.connect(**parameters)


def _with_silence_limit(
    steps: Generator[Any, Any, Any], seconds: float
) -> Generator[Any, Any, Any]:
    """Pass on the steps of an exchange; raise ConnectionTimeout after a silence.

    The driver sends each step what it is ready for: nothing, at intervals, while there is silence.
    """
    last_answer = time.monotonic()
    try:
        step = next(steps)
        while True:
            ready = yield step
            now = time.monotonic()
            if ready:
                last_answer = now
            elif now - last_answer > seconds:
                raise psycopg.errors.ConnectionTimeout(f"no answer in {seconds:g} s")
            step = steps.send(ready)
    except StopIteration as end:
        return end.value
