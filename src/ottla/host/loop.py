"""The event loop: uvloop if it can be imported, otherwise asyncio's own.

The loop itself is the Scheduler port (`call_soon`, `call_later`). SIGTERM, SIGINT and SIGHUP begin a clean
stop; further signals are ignored, so that a second Ctrl-C does not interrupt a clean shutdown.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

__all__ = ["EventLoop", "new_event_loop", "stop_on_signals", "stop_signals"]

EventLoop = asyncio.AbstractEventLoop


def new_event_loop() -> EventLoop:
    """A new loop, set as the current loop of this thread because some of asyncio's primitives look it up."""
    try:
        import uvloop
    except ImportError:
        loop: EventLoop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def stop_on_signals(loop: EventLoop, stop: Callable[[], object]) -> None:
    """Calls `stop` on the loop's thread at the first of the `stop_signals`."""
    stopping = False

    def on_signal() -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            stop()

    for number in stop_signals():
        loop.add_signal_handler(number, on_signal)


def stop_signals() -> list[signal.Signals]:
    """The signals that begin a stop; SIGHUP only if the parent process has not ignored it (`nohup`)."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    return numbers if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*numbers, signal.SIGHUP]
