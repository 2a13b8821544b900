"""kafka-dump-log reads the files a node writes: segments, indexes, and the metadata log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.java.conftest import Tool
from tests.support.brokers import Broker
from tests.support.java import ToolServer

COMPLAINTS = (
    "Mismatches in",
    "Non-consecutive",
    "Found timestamp mismatch",
    "Found out of order",
    "isvalid: false",
    "Index offset",
)


def dump(java: ToolServer, *files: Path, options: tuple[str, ...] = ()) -> str:
    result = java.run("DumpLogSegments", "--files", ",".join(map(str, files)), *options)
    assert result.status == 0, result.stderr
    for complaint in COMPLAINTS:
        assert complaint not in result.stdout, result.stdout[:2000]
    return result.stdout


@pytest.fixture
def partition_directory(run: Tool, broker: Broker, topic: str) -> Path:
    """A partition with several segments, hence with indexes that have entries."""
    run("TopicCommand", "--create", "--topic", topic, "--config", "index.interval.bytes=2000")
    size = ["--num-records", 3000, "--record-size", 1000, "--throughput", -1]
    run("ProducerPerformance", "--topic", topic, *size, "--command-property", "batch.size=16384")
    return broker.log_directory / f"{topic}-0"


def test_segments_hold_every_record(java: ToolServer, partition_directory: Path) -> None:
    segments = sorted(partition_directory.glob("*.log"))
    assert len(segments) >= 3
    text = dump(java, *segments, options=("--deep-iteration",))
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert offsets == list(range(3000))
    bases = [int(path.stem) for path in segments]
    assert [int(number) for number in re.findall(r"^Log starting offset: (\d+)$", text, re.MULTILINE)] == bases


def test_indexes_agree_with_their_segments(java: ToolServer, partition_directory: Path) -> None:
    indexes = sorted(partition_directory.glob("*.index"))
    text = dump(java, *indexes)
    # A 1 MB segment of 16 KB batches, with an entry at least every other batch.
    assert len(re.findall(r"^offset: \d+ position: \d+", text, re.MULTILINE)) > 30 * (len(indexes) - 1)
    dump(java, *indexes, options=("--index-sanity-check",))
    times = dump(java, *sorted(partition_directory.glob("*.timeindex")))
    assert re.search(r"^timestamp: \d+ offset: \d+$", times, re.MULTILINE)


def test_the_metadata_log_is_kafkas(java: ToolServer, run: Tool, broker: Broker, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 2, "--config", "retention.ms=7200000")
    directory = broker.log_directory / "__cluster_metadata-0"
    text = dump(java, *sorted(directory.glob("*.log")), options=("--cluster-metadata-decoder",))
    topic_id = re.search(rf'"type":"TOPIC_RECORD","version":\d+,"data":{{"name":"{topic}","topicId":"(\S{{22}})"', text)
    assert topic_id is not None
    partitions = rf'"type":"PARTITION_RECORD","version":\d+,"data":{{"partitionId":(\d),"topicId":"{topic_id.group(1)}"'
    assert re.findall(partitions, text) == ["0", "1"]
    assert re.search(rf'"type":"CONFIG_RECORD".*"resourceName":"{topic}","name":"retention.ms","value":"7200000"', text)
    for kind in ("FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD"):
        assert f'"type":"{kind}"' in text
    assert "LeaderChange" in text or "leaderId" in text.replace(" ", "")
