"""The command `hexveil`: a file per command; each parses, calls the library and prints."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.cli import endings

NEW_OBJECTS = 250_000
"""New objects after which a command looks for garbage: libraries make 200,000 that last, and a
search every 700 took a quarter of their loading."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; 130 and one line if it was interrupted."""
    from hexveil.cli.endings import Watch  # noqa: PLC0415  loading takes a moment

    watch = Watch().install()
    try:
        return _run(arguments, watch)
    finally:
        watch.remove()


def command() -> NoReturn:
    """Run the command as a process of its own, and exit with its code."""
    gc.set_threshold(NEW_OBJECTS)
    # Large solves take one thread each anyway (base/blas_threads.py). Those that OpenBLAS starts as
    # it is loaded wait actively for work, which took a tenth of a short command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from hexveil.cli.endings import Watch  # noqa: PLC0415  loading takes a moment

    # Never removed: the work is done and has its code, which a late signal must not change.
    sys.exit(_run(None, Watch().install()))


def _run(arguments: Sequence[str] | None, watch: endings.Watch) -> int:
    """Return the exit code; when this returns, the watch raises no more."""
    from hexveil.cli import endings  # noqa: PLC0415  loading takes a moment

    try:
        try:
            watch.open()
            from hexveil.cli.app import run  # noqa: PLC0415  loading takes a moment, too

            code, failure = run(arguments)
        finally:
            watch.close()
    except KeyboardInterrupt:
        watch.close()
        code, failure = endings.CODE, None
    # An interruption that came too late to stop anything leaves the code of the finished work.
    if code == endings.CODE or (watch.arrived and code):
        code, failure = endings.CODE, endings.STOPPED
    if failure is not None:
        # By the words alone: a command line that cannot be parsed may ask for JSON, too.
        failure.show(as_json="--json" in (sys.argv[1:] if arguments is None else arguments))
    return code


__all__ = ["command", "main"]
