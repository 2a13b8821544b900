"""Runs applications of `streams_under_kills` until SIGTERM: BOOTSTRAP DIRECTORY GUARANTEE WORKERS KIND..."""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading

from ottla.streams import Application, UncaughtExceptionResponse
from tests.support.streams_under_kills import TEXT, build


def main(bootstrap: str, directory: str, guarantee: str, workers: str, *kinds: str) -> None:
    faulthandler.enable()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    running = []
    for kind in kinds:
        properties = {
            "application.id": f"app-{kind}",
            "bootstrap.servers": bootstrap,
            "processing.guarantee": guarantee,
            "num.stream.threads": int(workers),
            "state.dir": directory,
            "default.key.serde": TEXT,
            "default.value.serde": TEXT,
            "commit.interval.ms": 100 if guarantee == "exactly_once_v2" else 2_000,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
        }
        application = Application(build(kind), properties, runs_on="threads")
        application.set_uncaught_exception_handler(lambda _: UncaughtExceptionResponse.REPLACE_THREAD)
        application.start()
        running.append(application)
    for application in running:
        application.wait_running(120)
    print("running", flush=True)
    stop.wait()
    for application in running:
        application.close(30)


if __name__ == "__main__":
    main(*sys.argv[1:])
