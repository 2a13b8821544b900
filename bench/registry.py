"""The Schema Registry with 10,000 schemas: the time of its start, its memory, and lookups by id at a steady rate.

The allowed figures are in Apache Kafka's column.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result
from tests.support.registries import registry_process

__all__ = ["BUDGET", "GROUP", "SPECIALS", "measure_registry"]

GROUP = "Schema Registry"
NAME = "10,000 schemas, beside what they may take"
LOADED, MEMORY, LOOKUP = "start to ready s", "memory MB", "lookup p99 ms at 500/s"
BUDGET = {LOADED: 5.0, MEMORY: 150.0, LOOKUP: 5.0}
SCHEMAS = 10_000
VERSIONS = 5
LOOKUPS, LOOKUPS_PER_SECOND = 5_000, 500
TOPIC = "_schemas"


def measure_registry(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    with ottla.testing.cluster() as cluster:
        write_schemas(cluster.bootstrap)
        rounds = [_round(cluster.bootstrap) for _ in range(runs)]
    goals = dict.fromkeys(BUDGET, Goal(ratio=1.0))
    return as_result(GROUP, NAME, goals, {PEER: [dict(BUDGET) for _ in rounds], OURS: rounds})


def write_schemas(bootstrap: str) -> None:
    """Fills the topic as a registry would have, in its record format."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, config={"cleanup.policy": "compact"})])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(SCHEMAS):
        fields = [{"name": f"field_{index}", "type": ["null", "string"], "default": None} for index in range(10)]
        schema = {"type": "record", "name": f"Record{number}", "namespace": "com.example", "fields": fields}
        subject, version = f"subject-{number // VERSIONS}", number % VERSIONS + 1
        key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        value = {"subject": subject, "version": version, "id": number + 1, "schema": _json(schema), "deleted": False}
        producer.produce(TOPIC, _json(value), _json(key))
        producer.poll(0)
    producer.flush(60)


def _round(bootstrap: str) -> Metrics:
    started = time.monotonic()
    with registry_process(bootstrap) as registry:
        ready = time.monotonic() - started
        waits = _look_up(registry.port)
        memory = psutil.Process(registry.process.pid).memory_info().rss / 1e6
        # The group forgets the instance at once, so that the next run need not wait for the end of its session.
        registry.stop()
    return {LOADED: ready, MEMORY: memory, LOOKUP: sorted(waits)[int(len(waits) * 0.99)] * 1e3}


def _look_up(port: int) -> list[float]:
    chance, waits = random.Random(1), []
    connection = http.client.HTTPConnection("127.0.0.1", port)
    started = time.monotonic()
    for number in range(LOOKUPS):
        time.sleep(max(started + number / LOOKUPS_PER_SECOND - time.monotonic(), 0))
        asked_at = time.perf_counter()
        connection.request("GET", f"/schemas/ids/{chance.randrange(1, SCHEMAS + 1)}")
        answer = connection.getresponse()
        answer.read()
        waits.append(time.perf_counter() - asked_at)
        assert answer.status == 200
    connection.close()
    return waits


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


SPECIALS: tuple[Special, ...] = ((f"{GROUP}: {NAME}", 20.0, measure_registry),)
