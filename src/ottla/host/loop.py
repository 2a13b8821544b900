"""The event loop: uvloop where it can be imported, asyncio's own otherwise.

The loop itself is the Scheduler port (`call_soon`, `call_later`). SIGTERM, SIGINT and SIGHUP ask for a clean stop;
another signal while stopping is ignored, so that an impatient Ctrl-C does not cut a clean shutdown short.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

__all__ = ["EventLoop", "new_event_loop", "stop_on_signals", "stop_signals"]

EventLoop = asyncio.AbstractEventLoop


def new_event_loop() -> EventLoop:
    """A loop for this thread; it is made current, since some of asyncio's primitives look it up."""
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
    """What asks for a stop: also the end of the terminal, unless whoever started us (`nohup`) has it ignored."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    return numbers if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*numbers, signal.SIGHUP]
