"""A Connect worker on real Spark, in a thread of the test process, with its REST interface."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.work.spark_engine import SparkEngine
from ottla.connect.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LiveWorker", "visible_files", "worker_properties"]

WAIT_SECONDS = 180.0


def visible_files(path: Path, ending: str) -> Iterator[Path]:
    """The files that a reader of a directory sees: names with an underscore are temporary and are left out."""
    for directory, below, names in os.walk(path):
        below[:] = [name for name in below if not name.startswith(("_", "."))]
        yield from (Path(directory) / name for name in names if name.endswith(ending) and name[0] not in "_.")


def worker_properties(bootstrap: str, name: str, **overrides: str) -> dict[str, str]:
    """A distributed worker on one broker, with quick batches."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "listeners": "http://127.0.0.1:0",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.storage.partitions": "3",
        "status.storage.partitions": "1",
        "trigger.interval.ms": "100",
        **{key.replace("_", "."): value for key, value in overrides.items()},
    }


class LiveWorker:
    """A context manager."""

    def __init__(self, properties: Mapping[str, str], spark: SparkSession) -> None:
        self._config = WorkerConfig(dict(properties), distributed=True)
        self._spark = spark
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._worker: Worker | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._worker = Worker(
            self._config,
            engine=lambda config, plugins, offsets, cluster: SparkEngine(
                config, plugins, offsets, cluster, spark=self._spark
            ),
        )
        self._call(self._worker.start())
        self.url = self._worker.url.rstrip("/")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._worker is not None
        self._call(self._worker.stop())
        # On a busy machine a task may still be running; it reports its end to the worker.
        for thread in threading.enumerate():
            if thread.name.startswith("task-"):
                thread.join(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def put(self, name: str, **config: str) -> None:
        """Creates a connector; underscores in names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.request("PUT", f"/connectors/{name}/config", settings)

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.request("GET", f"/connectors/{name}/status")
        return status

    def wait(self, condition: Callable[[], Any], *connectors: str) -> None:
        """Waits until the condition holds; fails at once if a task of these connectors fails."""
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            for name in connectors:
                for task in self.status(name)["tasks"]:
                    assert task["state"] != "FAILED", task["trace"]
            assert time.monotonic() < end, [self.status(name) for name in connectors]
            time.sleep(0.1)

    def wait_for_failure(self, name: str) -> str:
        """Waits for a failed task and returns its trace."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            for task in self.status(name)["tasks"]:
                if task["state"] == "FAILED":
                    return str(task["trace"])
            assert time.monotonic() < end
            time.sleep(0.1)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            # During a rebalance a worker asks clients to retry.
            if error.code in (404, 409, 500, 503) and method == "GET":
                return {"tasks": []}
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text else None

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)
