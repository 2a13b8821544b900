"""Console producer and consumer, producer-perf-test, get-offsets, delete-records, log-dirs, describe-producers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.java.conftest import Tool

FORMATTER = ["print.partition", "print.offset", "print.key", "print.headers"]


def read_all(run: Tool, topic: str, count: int, *, partition: int = 0, offset: int | str = "earliest") -> list[str]:
    """Reads with an explicit partition, which needs no group."""
    properties = [word for name in FORMATTER for word in ("--formatter-property", f"{name}=true")]
    place = ["--partition", partition, "--offset", offset, "--max-messages", count, "--timeout-ms", 60000]
    return run("ConsoleConsumer", "--topic", topic, *place, *properties).stdout.splitlines()


def test_what_the_console_writes_it_reads(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic)
    lines = "h1:x,h2:y\tkey-1\tvalue one\nh1:z\tkey-2\tžluťoučký kůň\n"
    properties = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    run("ConsoleProducer", "--topic", topic, *properties, stdin=lines)
    assert read_all(run, topic, 2) == [
        "Partition:0\tOffset:0\th1:x,h2:y\tkey-1\tvalue one",
        "Partition:0\tOffset:1\th1:z\tkey-2\tžluťoučký kůň",
    ]
    assert read_all(run, topic, 1, offset=1) == ["Partition:0\tOffset:1\th1:z\tkey-2\tžluťoučký kůň"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_the_performance_tool_writes_with_every_codec(run: Tool, topic: str, codec: str, acks: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 2)
    settings = ["--command-property", f"acks={acks}", f"compression.type={codec}", "batch.size=16384", "linger.ms=5"]
    size = ["--num-records", 2000, "--record-size", 100, "--throughput", -1]
    stdout = run("ProducerPerformance", "--topic", topic, *size, *settings).stdout
    assert re.search(r"^2000 records sent, ", stdout, re.MULTILINE)
    ends = run("GetOffsetShell", "--topic", topic, "--time", -1).stdout.split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends) == 2000


def test_offsets_by_time_and_deleted_records(run: Tool, topic: str, tmp_path: Path) -> None:
    run("TopicCommand", "--create", "--topic", topic)
    run("ConsoleProducer", "--topic", topic, stdin="".join(f"value {number}\n" for number in range(10)))

    def offset(time: str) -> str:
        return run("GetOffsetShell", "--topic", topic, "--time", time).stdout.strip()

    assert offset("earliest") == f"{topic}:0:0"
    assert offset("latest") == f"{topic}:0:10"
    assert re.fullmatch(rf"{topic}:0:\d", offset("max-timestamp"))
    assert offset("0") == f"{topic}:0:0"
    request = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps(request))
    assert f"partition: {topic}-0\tlow_watermark: 4" in run("DeleteRecordsCommand", "--offset-json-file", file).stdout
    assert offset("earliest") == f"{topic}:0:4"
    assert read_all(run, topic, 1)[0].endswith("value 4")
    request["partitions"] = [{"topic": topic, "partition": 0, "offset": 11}]
    file.write_text(json.dumps(request))
    assert "OffsetOutOfRangeException" in run("DeleteRecordsCommand", "--offset-json-file", file).stdout


def test_log_directories_tell_sizes(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic)
    run("ConsoleProducer", "--topic", topic, stdin="one\n")
    answer = run("LogDirsCommand", "--describe", "--topic-list", topic).stdout.splitlines()
    (node,) = json.loads(next(line for line in answer if line.startswith("{")))["brokers"]
    (directory,) = node["logDirs"]
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    # A batch header is 61 bytes; the record 10: length, attributes, two deltas, two lengths, "one", header count.
    assert partition == {"partition": f"{topic}-0", "size": 71, "offsetLag": 0, "isFuture": False}


def test_an_idempotent_producer_leaves_its_state(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic)
    run("ConsoleProducer", "--topic", topic, stdin="one\ntwo\n")
    answer = run("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0).stdout.splitlines()
    names, values = (re.split(r"\s+", line.strip()) for line in answer[:2])
    assert dict(zip(names, values, strict=True))["LastSequence"] == "1"


def test_a_record_that_is_too_large_is_refused(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--config", "max.message.bytes=1000")
    result = run("ConsoleProducer", "--topic", topic, stdin="x" * 2000 + "\n", status=None)
    assert "RecordTooLargeException" in result.stderr + result.stdout
    assert run("GetOffsetShell", "--topic", topic).stdout.strip() == f"{topic}:0:0"
