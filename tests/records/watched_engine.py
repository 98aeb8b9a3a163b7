"""The library of the engine, which tells a test each query before it runs."""

import duckdb


class Watched:
    """A connection whose queries a test sees first: it may wait, change a file, or fail."""

    def __init__(self, connection, before):
        self._connection, self._before = connection, before

    def __getattr__(self, name):
        """Return a method of the connection."""
        method = getattr(self._connection, name)
        if name not in ("execute", "sql"):
            return method

        def asked(query):
            self._before(query)
            return method(query)

        return asked


def watch(monkeypatch, before):
    """Call a function with each query from here on."""
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda **given: Watched(connect(**given), before))


def once(work, part="FROM ("):
    """Return a function of queries that works before the first one with this part in it."""
    waiting = [work]

    def before(query):
        if part in query and waiting:
            waiting.pop()()

    return before
