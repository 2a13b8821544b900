"""Kafka's VerifiableProducer and VerifiableConsumer count every record while a leader is killed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import ottla.testing
from tests.integration.cluster_calls import broker_ids, create_topic, wait_until
from tests.java.conftest import require_java
from tests.support import jars
from tests.support.fault_workload import FAULT_SETTINGS, JavaWriter, check, controller_of, wait_in_sync
from tests.support.java import PROGRAMS, java_command

ALL = [1, 2, 3]
TOPIC = "counted"


@pytest.mark.slow
@pytest.mark.faults
def test_every_record_is_counted_while_a_leader_is_killed(tmp_path: Path) -> None:
    require_java()
    with ottla.testing.cluster(nodes=3, settings=FAULT_SETTINGS) as nodes:
        for node in nodes.nodes:
            wait_until(lambda node=node: broker_ids(node) == ALL, "every node knows all three")
        controller, _ = controller_of(nodes)
        victim, other = [node_id for node_id in ALL if node_id != controller]
        create_topic(nodes.node(controller), TOPIC, assignments={0: [victim, other, controller]})
        with JavaWriter(nodes.bootstrap, TOPIC, tmp_path) as writer:
            writer.wait_for(500)
            nodes.node(victim).kill()
            writer.wait_for(500)
            nodes.node(victim).start()
            wait_in_sync(nodes.bootstrap, TOPIC, ALL)
        check(nodes.bootstrap, TOPIC, writer)
        assert consumed(nodes.bootstrap, writer.count) == writer.acknowledged[0]


def consumed(bootstrap: str, count: int) -> dict[int, int]:
    """Offset and number of each record, as the VerifiableConsumer prints them."""
    command = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}", "-cp", jars.class_path(jars.TOOLS)]
    command += ["org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap, "--topic", TOPIC]
    command += ["--group-id", "counting", "--reset-policy", "earliest", "--max-messages", str(count), "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["offset"]: int(line["value"]) for line in events if line["name"] == "record_data"}
