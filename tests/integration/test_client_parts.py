"""A program that uses every client loads no part of a broker at run time, whichever broker it talks to."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from ottla.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer

cluster = {"bootstrap.servers": sys.argv[1]}
with BlockingProducer({**cluster, "compression.type": "zstd", "transactional.id": "parts"}) as producer:
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("parts", b"value").result()
    producer.commit_transaction()
with BlockingConsumer({**cluster, "group.id": "parts", "auto.offset.reset": "earliest"}) as consumer:
    consumer.subscribe(["parts"])
    assert next(iter(consumer)).value == b"value"
with BlockingAdmin(cluster) as admin:
    assert "parts" in admin.topics.names()
    admin.topics.delete(["parts"])
print(*sorted({name.split(".")[1] for name in sys.modules if name.startswith("ottla.")}))
"""
CLIENT_PARTS = {"client", "model", "records", "sasl", "serdes", "tls", "wire"}


def test_a_running_client_loads_no_part_of_a_broker(client_bootstrap: str) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", PROGRAM, client_bootstrap], capture_output=True, text=True, check=False, timeout=60
    )
    assert completed.returncode == 0, completed.stderr
    assert set(completed.stdout.split()) <= CLIENT_PARTS, completed.stdout
