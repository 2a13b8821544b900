"""`ottla`: runs a node at once, and hands every other command line to click.

A failure is one sentence on standard error and an exit code: 1 for a failure, 2 for an invalid command line, 130 for
Ctrl-C. A traceback is a defect.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence

__all__ = ["main"]

# More objects than the modules and state of a small node. A start creates almost no garbage: some 300 objects, with any
# number of partitions.
LOADING_GC_THRESHOLD = 500_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the console script's entry point."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in ("up", "node"):
        from ottla.cli.start_options import read_options, start

        # A node must not load click, rich and the client. A line that is not plainly valid is left to click.
        values = read_options(words[0], words[1:])
        if values is not None:
            return _started(lambda: start(words[0], values))
    from ottla.cli.app import run

    return run(words)


def _started(run: Callable[[], int]) -> int:
    # Modules loaded from here on live until the end: scanning them for garbage every 700 objects is useless.
    gc.set_threshold(LOADING_GC_THRESHOLD)
    try:
        return run()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of standard output has closed the pipe.
        return 1


if __name__ == "__main__":
    sys.exit(main())
