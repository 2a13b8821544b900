"""Imported by every Python process with this directory in PYTHONPATH: measures the turns of its event loop.

The file OTTLA_TURNS gets a line for every turn that takes longer than some milliseconds: the monotonic time, and the
CPU time of the thread, which does not depend on other processes. The loop is asyncio's own, whose turns can be
measured.
"""

from __future__ import annotations

import asyncio.base_events
import os
import sys
from time import monotonic, thread_time
from typing import Any

LONG_SECONDS = 0.003

if "OTTLA_TURNS" in os.environ:
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    run_once = asyncio.base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]

    def timed_run_once(loop: Any) -> None:
        started = thread_time()
        run_once(loop)
        seconds = thread_time() - started
        if seconds > LONG_SECONDS:
            with open(os.environ["OTTLA_TURNS"], "a") as file:
                file.write(f"{monotonic()} {seconds}\n")

    asyncio.base_events.BaseEventLoop._run_once = timed_run_once  # type: ignore[attr-defined]
