"""Runs applications of `streams_under_kills` on one Spark session until it is killed; its settings are JSON.

`mode` is `job` (a long job for each application) or `query` (a streaming query with epochs).
"""

from __future__ import annotations

import json
import logging
import sys

from ottla.spark import session
from ottla.streams import Application, UncaughtExceptionResponse
from tests.support.spark_java import SHORT_LIVED
from tests.support.streams_under_kills import TEXT, build


def main(settings: dict[str, str]) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    spark = session(
        "streams",
        master=settings["master"],
        settings={
            **SHORT_LIVED,
            # Kills count as failures of tasks and executors, and would end the job.
            "spark.task.maxFailures": "1000",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        },
    )
    running = []
    for kind in settings["kinds"].split(","):
        properties = {
            "application.id": f"app-{kind}",
            "bootstrap.servers": settings["bootstrap"],
            "processing.guarantee": settings["guarantee"],
            "state.dir": settings["state"],
            "default.key.serde": TEXT,
            "default.value.serde": TEXT,
            "commit.interval.ms": 100 if settings["guarantee"] == "exactly_once_v2" else 2_000,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
        }
        application = Application(build(kind), properties)
        application.set_uncaught_exception_handler(lambda _: UncaughtExceptionResponse.REPLACE_THREAD)
        if settings["mode"] == "query":
            application.start_query(spark, epoch_seconds=3.0, checkpoint=f"{settings['checkpoint']}/{kind}")
        else:
            application.start()
        running.append(application)
    for application in running:
        application.wait_running(240)
    print("running", flush=True)
    for application in running:
        application.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
