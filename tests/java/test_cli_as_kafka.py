"""Each command of `ottla` beside Kafka's own tool, on the same cluster: both must print the same facts.

`BROKER=kafka` runs the same commands against Apache Kafka.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import run as run_command
from ottla.cli.table import COMMANDS
from tests.support.command_lines import Cluster, Ours, Theirs, cluster, ours, theirs
from tests.support.java import ToolServer

__all__ = ["cluster", "ours", "theirs"]

TOPIC = "orders"


@pytest.fixture(scope="module", autouse=True)
def prepared(cluster: Cluster) -> None:
    """A topic with records, and a group that has read some of them."""
    env = ["-b", cluster.bootstrap]
    create = ["topics", "create", TOPIC, "-p", "3", "-r", "3", "-c", "retention.ms=86400000", *env]
    assert run_command(create) == 0
    lines = "".join(f"key-{number}\tvalue-{number}\n" for number in range(60))
    original, sys.stdin = sys.stdin, io.StringIO(lines)
    try:
        assert run_command(["produce", TOPIC, "-k", "\t", *env]) == 0
    finally:
        sys.stdin = original
    read = ["consume", TOPIC, "-F", "-g", "readers", "-n", "40", "--formatter", "noop", *env]
    assert run_command(read) == 0


def test_topics_list(ours: Ours, theirs: Theirs) -> None:
    names = theirs("TopicCommand", "--list").split()
    assert TOPIC in names
    assert ours("topics", "list", "--json").json == names
    assert ours("topics", "--list").stdout.split() == names
    assert ours("topics", "list", "--exclude-internal").stdout.split() == [TOPIC]


def test_topics_describe(ours: Ours, theirs: Theirs) -> None:
    text = theirs("TopicCommand", "--describe", "--topic", TOPIC)
    (topic,) = ours("topics", "--describe", "--topic", TOPIC, "--json").json
    head = re.search(r"TopicId: (\S+)\tPartitionCount: (\d+)\tReplicationFactor: (\d+)\tConfigs: (\S*)", text)
    assert head is not None
    assert head.groups()[:3] == (topic["topicId"], str(topic["partitionCount"]), str(topic["replicationFactor"]))
    assert set(head[4].split(",")) >= {f"{key}={value}" for key, value in topic["configs"].items()}
    rows = re.findall(r"Partition: (\d+)\tLeader: (\d+)\tReplicas: (\S+)\tIsr: (\S+)", text)
    mine = [
        (str(partition["partition"]), str(partition["leader"]), joined(partition["replicas"]), joined(partition["isr"]))
        for partition in topic["partitions"]
    ]
    assert mine == rows


@pytest.mark.parametrize(
    "flag",
    ["under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions", "at-min-isr-partitions"],
)
def test_topics_describe_filters(ours: Ours, theirs: Theirs, flag: str) -> None:
    text = theirs("TopicCommand", "--describe", "--exclude-internal", f"--{flag}")
    expected = re.findall(r"Topic: (\S+)\tPartition: (\d+)", text)
    topics = ours("topics", "describe", "--exclude-internal", f"--{flag}", "--json").json
    assert [
        (topic["topic"], str(partition["partition"])) for topic in topics for partition in topic["partitions"]
    ] == expected


def test_topics_grow_and_go(ours: Ours, theirs: Theirs) -> None:
    ours("topics", "--create", "--topic", "growing", "--partitions", 1)
    assert "already exists" in ours("topics", "create", "growing", code=1).stderr
    ours("topics", "create", "growing", "--if-not-exists")
    ours("topics", "--alter", "--topic", "growing", "--partitions", 4)
    assert "PartitionCount: 4" in theirs("TopicCommand", "--describe", "--topic", "growing")
    assert "ottla topics list" in ours("topics", "delete", "nope", "--yes", code=1).stderr
    refused = ours("topics", "delete", "growing", code=1)
    assert "--yes" in refused.stderr
    ours("topics", "--delete", "--topic", "growing", "--yes")
    assert "growing" not in theirs("TopicCommand", "--list").split()


def test_configs(ours: Ours, theirs: Theirs) -> None:
    entity = ["--entity-type", "topics", "--entity-name", TOPIC]
    ours("configs", "--alter", *entity, "--add-config", "max.message.bytes=2000000,cleanup.policy=[compact,delete]")
    text = theirs("ConfigCommand", *entity, "--describe")
    expected = dict(re.findall(r"^\s+(\S+?)=(\S*) sensitive=", text, re.MULTILINE))
    (described,) = ours("configs", "describe", "--topic", TOPIC, "--json").json
    assert {name: setting["value"] for name, setting in described["configs"].items()} == expected
    all_settings = theirs("ConfigCommand", *entity, "--describe", "--all")
    all_expected = {
        name: (value, synonyms)
        for name, value, synonyms in re.findall(
            r"^\s+(\S+?)=(.*) sensitive=\w+ synonyms=\{(.*)\}$", all_settings, re.MULTILINE
        )
    }
    (all_described,) = ours("configs", "describe", "--topic", TOPIC, "--all", "--json").json
    mine = {
        name: (
            setting["value"] or "",
            ", ".join(f"{item['source']}:{item['name']}={item['value']}" for item in setting["synonyms"]),
        )
        for name, setting in all_described["configs"].items()
    }
    assert mine == all_expected
    ours("configs", "alter", "--topic", TOPIC, "--delete-config", "max.message.bytes,cleanup.policy")
    assert "max.message.bytes" not in theirs("ConfigCommand", *entity, "--describe")
    assert "INVALID_CONFIG" in ours("configs", "alter", "-t", TOPIC, "--set", "retention.ms=x", code=1).stderr


def test_broker_configs(ours: Ours, theirs: Theirs) -> None:
    ours("configs", "alter", "--broker-defaults", "--set", "log.cleaner.threads=2")
    text = theirs("ConfigCommand", "--entity-type", "brokers", "--entity-default", "--describe")
    assert "log.cleaner.threads=2" in text
    (described,) = ours("configs", "describe", "--broker-defaults", "--json").json
    assert {f"{name}={setting['value']}" for name, setting in described["configs"].items()} == set(
        re.findall(r"^\s+(\S+=\S+) sensitive=", text, re.MULTILINE)
    )
    ours("configs", "alter", "--entity-type", "brokers", "--entity-default", "--delete-config", "log.cleaner.threads")


def test_get_offsets(ours: Ours, theirs: Theirs) -> None:
    for when in ("latest", "max-timestamp", "-2"):
        expected = theirs("GetOffsetShell", "--topic", TOPIC, "--time", when).split()
        offsets = ours("get-offsets", "--topic", TOPIC, "--time", when, "--json").json
        mine = [f"{row['topic']}:{row['partition']}:{row['offset']}" for row in offsets if row["offset"] is not None]
        assert mine == expected, when
    assert len(ours("get-offsets", "--topic-partitions", f"{TOPIC}:0-2", "--json").json) == 2


def test_groups(ours: Ours, theirs: Theirs) -> None:
    assert theirs("ConsumerGroupCommand", "--list").split() == [
        group["group"] for group in ours("groups", "list", "--json").json
    ]
    text = theirs("ConsumerGroupCommand", "--describe", "--group", "readers")
    expected = re.findall(rf"^readers\s+{TOPIC}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", text, re.MULTILINE)
    (group,) = ours("groups", "--describe", "--group", "readers", "--json").json
    mine = [
        tuple(str(row[name]) for name in ("partition", "currentOffset", "logEndOffset", "lag"))
        for row in group["offsets"]
    ]
    assert sorted(mine) == sorted(expected)
    assert len(mine) == 3
    state = theirs("ConsumerGroupCommand", "--describe", "--group", "readers", "--state")
    (ours_state,) = ours("groups", "describe", "readers", "--state", "--json").json
    assert re.search(rf"^readers\s.*\({ours_state['coordinator']}\).*\s{ours_state['state']}\s+0", state, re.MULTILINE)
    assert "no active members" in ours("groups", "describe", "readers", "--members").stdout
    assert "ottla groups list" in ours("groups", "describe", "nobody", code=1).stderr


RESETS = {
    "earliest": ["--to-earliest"],
    "latest": ["--to-latest"],
    "current": ["--to-current"],
    "offset": ["--to-offset", "5"],
    "shift": ["--shift-by", "-3"],
    "datetime": ["--to-datetime", "2020-01-01T00:00:00.000"],
    "duration": ["--by-duration", "PT0S"],
}


@pytest.mark.parametrize("method", RESETS)
def test_resets_are_planned_alike(ours: Ours, theirs: Theirs, method: str) -> None:
    words = ["--reset-offsets", "--group", "readers", "--topic", TOPIC, *RESETS[method]]
    text = theirs("ConsumerGroupCommand", *words, "--dry-run")
    expected = sorted(re.findall(rf"^readers\s+{TOPIC}\s+(\d+)\s+(\d+)", text, re.MULTILINE))
    planned = ours("groups", *words, "--dry-run", "--json").json
    assert sorted((str(row["partition"]), str(row["newOffset"])) for row in planned) == expected
    assert len(expected) == 3


def test_offsets_travel_through_files(ours: Ours, theirs: Theirs, tmp_path: Path) -> None:
    words = ["--reset-offsets", "--group", "readers", "--all-topics", "--to-current", "--export", "--dry-run"]
    exported = ours("groups", *words).stdout
    lines = [line.replace('"', "") for line in theirs("ConsumerGroupCommand", *words).split()]
    assert sorted(exported.split()) == sorted(line for line in lines if line.startswith(f"{TOPIC},"))
    file = tmp_path / "offsets.csv"
    file.write_text(f"{TOPIC},0,1\n{TOPIC},1,2\n{TOPIC},2,3\n")
    ours("groups", "reset-offsets", "readers", "--from-file", str(file), "--execute")
    text = theirs("ConsumerGroupCommand", "--describe", "--group", "readers")
    assert re.findall(rf"^readers\s+{TOPIC}\s+\d+\s+(\d+)", text, re.MULTILINE) == ["1", "2", "3"]
    ours("groups", "--delete-offsets", "--group", "readers", "--topic", f"{TOPIC}:2", "--yes")
    (group,) = ours("groups", "describe", "readers", "--json").json
    assert [row["partition"] for row in group["offsets"]] == [0, 1]


def test_records_written_by_one_are_read_by_the_other(ours: Ours, theirs: Theirs) -> None:
    ours("topics", "create", "talk", "-p", 1, "-r", 1)
    lines = "h1:a,h2:b\tk1\tv1\nh1:c\tk2\tNULL\n"
    reader = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    ours("produce", "--topic", "talk", *reader, "--reader-property", "null.marker=NULL", "-z", "lz4", stdin=lines)
    theirs("ConsoleProducer", "--topic", "talk", "--reader-property", "parse.key=true", stdin="k3\tv3\n")
    prints = [f"print.{part}=true" for part in ("timestamp", "key", "offset", "partition", "headers")]
    formatting = [word for setting in prints for word in ("--formatter-property", setting)]
    common = ["--topic", "talk", "--from-beginning", "--max-messages", "3", *formatting]
    mine = ours("consume", *common).stdout
    assert mine == theirs("ConsoleConsumer", *common)
    assert re.sub(r"CreateTime:\d+", "T", mine).splitlines() == [
        "T\tPartition:0\tOffset:0\th1:a,h2:b\tk1\tv1",
        "T\tPartition:0\tOffset:1\th1:c\tk2\tnull",
        "T\tPartition:0\tOffset:2\tNO_HEADERS\tk3\tv3",
    ]
    record = ours("consume", "talk", "--partition", 0, "--offset", 2, "-n", 1, "-f", "json").json
    assert (record["key"], record["value"], record["offset"]) == ("k3", "v3", 2)
    assert ours("consume", "--include", "ta.k", "-F", "-n", 3, "-f", "noop").stdout == ""


def test_delete_records(ours: Ours, theirs: Theirs, tmp_path: Path) -> None:
    ours("topics", "create", "short", "-p", 1, "-r", 1)
    ours("produce", "short", stdin="a\nb\nc\nd\n")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "short", "partition": 0, "offset": 2}]}))
    assert "--yes" in ours("delete-records", "--offset-json-file", str(plan), code=1).stderr
    (row,) = ours("delete-records", "--offset-json-file", str(plan), "--yes", "--json").json
    assert row == {"topic": "short", "partition": 0, "lowWatermark": 2}
    assert theirs("GetOffsetShell", "--topic", "short", "--time", "earliest").split() == ["short:0:2"]
    assert "OFFSET_OUT_OF_RANGE" in ours("delete-records", "short:0:99", "--yes", code=1).stderr


def test_log_directories(ours: Ours, theirs: Theirs) -> None:
    text = theirs("LogDirsCommand", "--describe", "--topic-list", TOPIC)
    expected = json.loads(text.splitlines()[-1])
    directories = ours("log-dirs", "--describe", "--topic-list", TOPIC, "--json").json

    def sizes(content: Any) -> set[tuple[int, str, int]]:
        return {
            (broker["broker"], partition["partition"], partition["size"])
            for broker in content["brokers"]
            for directory in broker["logDirs"]
            for partition in directory["partitions"]
        }

    assert sizes(directories) == sizes(expected)
    assert sizes(directories)


def test_what_the_cluster_says_of_itself(ours: Ours, theirs: Theirs) -> None:
    identity = ours("cluster", "cluster-id").stdout.strip()
    assert theirs("ClusterTool", "cluster-id").strip().endswith(f"Cluster ID: {identity}")
    assert ours("cluster", "--json").json["clusterId"] == identity
    text = theirs("BrokerApiVersionsCommand")
    for node in ours("api-versions", "--json").json:
        for name, api in node["apis"].items():
            span = str(api["min"]) if api["min"] == api["max"] else f"{api['min']} to {api['max']}"
            # The tool of 4.3 does not know the names of the APIs of 4.4.
            assert f"{name}({api['key']}): {span} [" in text or f"UNKNOWN({api['key']}): {span}" in text
    features = theirs("FeatureCommand", "describe")
    for feature in ours("features", "--json").json["features"]:
        line = re.search(rf"Feature: {re.escape(feature['name'])}\s.*FinalizedVersionLevel: (\S+)\s", features)
        assert line is not None, features
        assert feature["name"] == "metadata.version" or line[1] == str(feature["finalized"] or 0)


def test_quorum(ours: Ours, theirs: Theirs) -> None:
    text = theirs("MetadataQuorumCommand", "describe", "--status")
    status = ours("quorum", "describe", "--status", "--json").json
    for title, name in (("ClusterId", "clusterId"), ("LeaderId", "leaderId"), ("LeaderEpoch", "leaderEpoch")):
        line = re.search(rf"^{title}:\s+(\S+)$", text, re.MULTILINE)
        assert line is not None
        assert line[1] == str(status[name])
    rows = ours("quorum", "describe", "--replication", "--json").json
    replication = theirs("MetadataQuorumCommand", "describe", "--replication")
    expected = re.findall(r"^(\d+)\s.*\s(Leader|Follower|Observer)\s*$", replication, re.MULTILINE)
    assert sorted((str(row["nodeId"]), row["status"].capitalize()) for row in rows) == sorted(expected)


def test_dumped_segments(ours: Ours, java: ToolServer, cluster: Cluster) -> None:
    directory = next(path for path in sorted(cluster.log_directory.glob(f"{TOPIC}-*")) if path.is_dir())
    segment = next(directory.glob("*.log"))
    words = ["--files", str(segment), "--print-data-log"]
    expected = java.run("DumpLogSegments", *words).stdout
    assert ours("dump-log", *words).stdout.splitlines() == expected.splitlines()


def test_dumped_metadata(ours: Ours, java: ToolServer, cluster: Cluster) -> None:
    segment = cluster.log_directory / "__cluster_metadata-0" / "00000000000000000000.log"
    words = ["--files", str(segment), "--cluster-metadata-decoder"]
    expected = re.findall(r'payload: \{"type":"(\w+)"', java.run("DumpLogSegments", *words).stdout)
    matches = re.findall(r'payload: \{"type":"(\w+)"', ours("dump-log", *words).stdout)
    assert matches[: len(expected)] == expected
    assert "TOPIC_RECORD" in expected


def test_elections(ours: Ours, theirs: Theirs) -> None:
    output = theirs("LeaderElectionCommand", "--election-type", "preferred", "--topic", TOPIC, "--partition", 0)
    assert f"{TOPIC}-0" in output
    answer = ours("elect-leaders", "--election-type", "PREFERRED", "--all-topic-partitions", "--json").json
    assert answer["elected"] == []
    assert "already" in ours("elect-leaders", f"{TOPIC}:0").stdout
    assert "--yes" in ours("elect-leaders", "--election-type", "unclean", f"{TOPIC}:0", code=1).stderr


def test_what_makes_no_sense_is_said_in_a_sentence(ours: Ours) -> None:
    lines = ("topics create", "topics --create --delete --topic x", "consume", "groups reset-offsets g --to-earliest")
    for line in (*lines, "nonsense"):
        answer = ours(*line.split(), code=2)
        assert answer.stderr.startswith("ottla: ")
        assert answer.stdout == ""


def test_transactions_and_their_producers(ours: Ours, theirs: Theirs) -> None:
    ours("topics", "create", "ledger", "-p", 1, "-r", 1)
    ours("perf", "produce", "ledger", "-n", 20, "--transactional-id", "bank")
    (listed,) = ours("transactions", "list", "--json").json
    while listed["state"] != "CompleteCommit":
        (listed,) = ours("transactions", "list", "--json").json
    text = theirs("TransactionsCommand", "list")
    row = [listed[name] for name in ("transactionalId", "coordinator", "producerId", "state")]
    assert re.search(r"^" + r"\s+".join(map(str, row)) + r"\s*$", text, re.MULTILINE)
    described = ours("transactions", "--bootstrap-server", "x:1", "describe", "--transactional-id", "bank", code=1)
    assert "x:1" in described.stderr
    transaction = ours("transactions", "describe", "--transactional-id", "bank", "--json").json
    text = theirs("TransactionsCommand", "describe", "--transactional-id", "bank")
    assert re.search(
        rf"\sbank\s+{transaction['producerId']}\s+{transaction['producerEpoch']}\s+{transaction['state']}\s", text
    )
    text = theirs("TransactionsCommand", "describe-producers", "--topic", "ledger", "--partition", 0)
    (producer,) = ours("producers", "ledger:0", "--json").json
    row = [producer[name] for name in ("producerId", "producerEpoch", "latestCoordinatorEpoch", "lastSequence")]
    assert re.search(r"^" + r"\s+".join(map(str, row)) + r"\s+\d+\s+None\s*$", text, re.MULTILINE)
    assert ours("transactions", "find-hanging", "--topic", "ledger", "--json").json == []
    ours("transactions", "forceTerminateTransaction", "--transactional-id", "bank", "--yes")


def test_verifiable_clients_and_measurements(ours: Ours) -> None:
    ours("topics", "create", "checked", "-p", 1, "-r", 1)

    def events(text: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    mine = events(ours("verifiable-producer", "--topic", "checked", "--max-messages", 3, "--repeating-keys", 2).stdout)
    assert [event["name"] for event in mine] == [
        "startup_complete",
        *["producer_send_success"] * 3,
        "shutdown_complete",
        "tool_data",
    ]
    assert [(event["key"], event["value"], event["offset"]) for event in mine[1:4]] == [
        ("0", "0", 0),
        ("1", "1", 1),
        ("0", "2", 2),
    ]
    reading = ["--topic", "checked", "--max-messages", 3, "--reset-policy", "earliest", "--verbose"]
    mine = events(ours("verifiable-consumer", *reading, "--group-id", "checkers").stdout)
    assert [event["offset"] for event in mine if event["name"] == "record_data"] == [0, 1, 2]
    assert {event["name"] for event in mine} >= {"startup_complete", "partitions_assigned", "offsets_committed"}
    assert ours("perf", "produce", "checked", "-n", 100, "--json").json["records"] == 100
    for how in ([], ["--batches"]):
        assert ours("perf", "consume", "checked", "-n", 103, "--json", *how).json["records"] == 103
    assert ours("perf", "end-to-end", "checked", "-n", 3, "--acks", "all", "--json").json["measured"] == 3
    assert set(ours("top", "--interval", 0.2, "--json").json) == {"brokers", "topics", "groups"}


def test_clients_and_measurements_count_alike(ours: Ours, theirs: Theirs) -> None:
    ours("topics", "create", "measured", "-p", 1, "-r", 1)
    size = ["--topic", "measured", "--num-records", 50, "--record-size", 10, "--throughput", -1]
    for output in (theirs("ProducerPerformance", *size), ours("perf", "produce", *size).stdout):
        assert re.search(
            r"^50 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency", output, re.MULTILINE
        )
    reading = ["--topic", "measured", "--num-records", 100, "--from-latest"]
    header, row = theirs("ConsumerPerformance", *reading[:4]).splitlines()[-2:]
    columns = dict(zip(header.split(", "), row.split(", "), strict=True))
    assert (
        int(columns["data.consumed.in.nMsg"]) == ours("perf", "consume", *reading[:4], "--json").json["records"] == 100
    )
    latency = ["--topic", "measured", "--num-records", 3, "--producer-acks", 1, "--record-size", 10]
    for output in (theirs("EndToEndLatency", *latency), ours("perf", "end-to-end", *latency).stdout):
        assert re.search(r"^Avg latency: [\d.]+ ms$", output, re.MULTILINE)
        assert "Percentiles: 50th = " in output
    sending = ["--topic", "measured", "--max-messages", 6, "--acks", 1, "--throughput", 20, "--value-prefix", 7]
    sent = []
    for output in (theirs("VerifiableProducer", *sending), ours("verifiable-producer", *sending).stdout):
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        sent.append(
            [
                (event["key"], event["value"], event["partition"])
                for event in lines
                if event["name"].endswith("_success")
            ]
        )
    assert sent[0] == sent[1]
    assert [value for _, value, _ in sent[1]] == [f"7.{number}" for number in range(6)]
    events = []
    for group in ("theirs", "ours"):
        reading = ["--topic", "measured", "--group-id", group, "--max-messages", 20, "--verbose"]
        output = (
            theirs("VerifiableConsumer", *reading)
            if group == "theirs"
            else ours("verifiable-consumer", *reading).stdout
        )
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        offsets = [event["offset"] for event in lines if event["name"] == "record_data"][:20]
        # Kafka's tool requests its own shutdown when its JVM ends, after it has reported the shutdown.
        names = {event["name"] for event in lines} - {"partitions_revoked", "shutdown_requested"}
        events.append((names, offsets))
    assert events[0] == events[1]


def test_releases_have_the_same_levels(ours: Ours, java: ToolServer) -> None:
    for release in ("3.5-IV2", "3.9-IV0", "4.0-IV3", "4.3-IV0"):
        words = ["version-mapping", "--release-version", release]
        expected = re.findall(r"^(\S+)=(\d+)", java.run("FeatureCommand", *words).stdout, re.MULTILINE)
        matches = re.findall(r"^(\S+)=(\d+)", ours("features", *words).stdout, re.MULTILINE)
        assert dict(matches) == dict(expected), release
        assert matches


def test_formatted_directories(ours: Ours, java: ToolServer, tmp_path: Path) -> None:
    cluster_id = ours("storage", "random-uuid").stdout.strip()
    file = tmp_path / "node.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id=3\nlog.dirs={tmp_path}/data\ncontroller.listener.names=C\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,C://127.0.0.1:9093\ncontroller.quorum.voters=3@127.0.0.1:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT\n"
    )
    assert "not formatted" in ours("storage", "info", "-c", str(file), code=1).stderr
    ours("storage", "format", "-t", cluster_id, "-c", str(file))
    (information,) = ours("storage", "info", "-c", str(file), "--json").json
    stdout = java.run("StorageTool", "info", "-c", str(file)).stdout
    assert f"{tmp_path}/data" in stdout
    for value in (cluster_id, str(information["nodeId"]), information["directoryId"]):
        assert value in stdout


# Every command, and the tests here that run it; a command without tests has no counterpart in Kafka.
ROWS = {
    "up": "integration/test_cli.py",
    "node": "integration/test_cli.py",
    "topics": "test_topics_describe",
    "produce": "test_records_written_by_one_are_read_by_the_other",
    "consume": "test_records_written_by_one_are_read_by_the_other",
    "get-offsets": "test_get_offsets",
    "delete-records": "test_delete_records",
    "groups": "test_groups",
    "transactions": "test_transactions_and_their_producers",
    "producers": "test_transactions_and_their_producers",
    "configs": "test_configs",
    "acls": "integration/test_acls_as_kafka.py",
    "roles": "integration/test_roles.py",
    "audit": "unit/cli/test_audit_search.py",
    "delegation-tokens": "integration/test_delegation_tokens.py",
    "certificates": "integration/test_secure_up.py",
    "keys": "integration/test_encryption.py",
    "registry": "integration/test_registry.py",
    "console": "console/test_pages_of_the_api.py",
    "schemas": "integration/test_cli_schemas.py",
    "streams": "streams/test_reset.py",
    "host": "integration/test_host.py",
    "mirror": "mirror/test_command.py",
    "mirror-maker": "mirror/test_mirror_maker.py",
    "lake": "lake/test_command.py",
    "migrate": "integration/test_migrate.py",
    "monitor": "integration/test_monitor.py",
    "balance": "integration/test_balance.py",
    "reconcile": "integration/test_reconcile.py",
    "reassign": "java/test_cli_replicas_as_kafka.py",
    "elect-leaders": "test_elections",
    "log-dirs": "test_log_directories",
    "verify-replicas": "java/test_cli_replicas_as_kafka.py",
    "cluster": "test_what_the_cluster_says_of_itself",
    "quorum": "test_quorum",
    "features": "test_releases_have_the_same_levels",
    "api-versions": "test_what_the_cluster_says_of_itself",
    "doctor": "integration/test_incident_day.py",
    "top": "test_verifiable_clients_and_measurements",
    "storage": "test_formatted_directories",
    "dump-log": "test_dumped_segments",
    "draw": "unit/cli/test_drawing.py",
    "perf": "test_clients_and_measurements_count_alike",
    "verifiable-producer": "test_clients_and_measurements_count_alike",
    "verifiable-consumer": "test_clients_and_measurements_count_alike",
    "profile": "unit/cli/test_profiles.py",
    "completion": "unit/cli/test_commands.py",
    "connect": "connect",
}


def test_no_command_is_left_out() -> None:
    assert set(ROWS) >= set(COMMANDS)
    for place in ROWS.values():
        assert place in globals() or (Path(__file__).parents[1] / place).exists()


def joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
