"""Shared by the examples: their options, and running a topology until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Sequence

from ottla.streams import Application, Topology

__all__ = ["parse", "run"]


def parse(description: str, arguments: Sequence[str] | None, **topics: str) -> argparse.Namespace:
    """The options of an example: the cluster, the application, and its topics with their defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    parser.add_argument("--application-id", default=description.split(":")[0].strip().lower().replace(" ", "-"))
    parser.add_argument("--workers", type=int, default=1, help="Spark tasks among which partitions are divided")
    parser.add_argument("--threads", action="store_true", help="run in threads of this process, without Spark")
    parser.add_argument("--commit-interval-ms", type=int, default=100)
    parser.add_argument("--state-dir", help="where instances keep their identity and state")
    for name, default in topics.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, metavar="TOPIC")
    return parser.parse_args(arguments)


def run(topology: Topology, options: argparse.Namespace) -> None:
    """Runs the topology exactly once until SIGINT or SIGTERM."""
    properties = {
        "application.id": options.application_id,
        "bootstrap.servers": options.bootstrap_server,
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": options.workers,
        "commit.interval.ms": options.commit_interval_ms,
    }
    if options.state_dir:
        properties["state.dir"] = options.state_dir
    application = Application(topology, properties, runs_on="threads" if options.threads else "spark")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    application.start()
    application.wait_running()
    print(f"{options.application_id} is running", flush=True)
    while not stop.wait(0.2):
        if application.wait(0):
            return
    application.close()
