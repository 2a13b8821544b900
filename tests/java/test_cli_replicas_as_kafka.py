"""Commands that move and compare replicas beside Kafka's own tools, on the same three brokers.

`BROKER=kafka` runs the same commands against Apache Kafka.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import jars
from tests.support.command_lines import Cluster, Ours, Theirs, cluster, ours, theirs
from tests.support.java import PROGRAMS, java_command

__all__ = ["cluster", "ours", "theirs"]

TOOL = "ReassignPartitionsCommand"

# Where the checksum is in a batch.
CHECKSUM_POSITION = 17


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def write_plan(plan: Path, topic: str, *replicas: list[int]) -> list[str]:
    """Writes a plan for the first partitions of a topic; returns the options that name it, for both tools."""
    partitions = [{"topic": topic, "partition": number, "replicas": brokers} for number, brokers in enumerate(replicas)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return ["--reassignment-json-file", str(plan)]


def replicas_of(ours: Ours, topic: str) -> list[list[int]]:
    (described,) = ours("topics", "describe", topic, "--json").json
    return [partition["replicas"] for partition in described["partitions"]]


def wait_until_moved(ours: Ours, plan: Path) -> None:
    while any(row["state"] == "moving" for row in ours("reassign", "verify", "-f", plan, "--json").json):
        pass


def test_a_plan_is_made_from_the_same_facts(ours: Ours, theirs: Theirs, tmp_path: Path) -> None:
    ours("topics", "create", "planned", "--replica-assignment", "1:2,2:3")
    topics = tmp_path / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"planned"}]}')
    words = ["--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3"]
    mine = ours("reassign", *words).stdout.splitlines()
    while '"any"' in mine[1]:
        # A broker reports the directory of a new replica after it has created the replica.
        mine = ours("reassign", *words).stdout.splitlines()
    lines = theirs(TOOL, *words).splitlines()
    assert (mine[0], mine[3]) == (lines[0], lines[3])
    assert json.loads(mine[1]) == json.loads(lines[1])

    def shape(text: str) -> list[tuple[str, int, int]]:
        # Both tools choose brokers at random; the results have the same shape.
        rows = json.loads(text)["partitions"]
        return [(row["topic"], row["partition"], len(set(row["replicas"]))) for row in rows]

    assert shape(mine[4]) == shape(lines[4]) == [("planned", 0, 2), ("planned", 1, 2)]


def test_replicas_moved_by_one_are_seen_by_the_other(ours: Ours, theirs: Theirs, plan: Path) -> None:
    ours("topics", "create", "moving", "--replica-assignment", "1:2,2:3")
    words = write_plan(plan, "moving", [3, 1], [1, 2])
    assert "--yes" in ours("reassign", "--execute", *words, code=1).stderr
    assert replicas_of(ours, "moving") == [[1, 2], [2, 3]]
    ours("reassign", "--execute", *words, "--throttle", 10_000_000, "--yes")
    wait_until_moved(ours, plan)
    assert replicas_of(ours, "moving") == [[3, 1], [1, 2]]
    output = theirs(TOOL, "--verify", *words)
    assert output.count("is completed") == 2
    (settings,) = ours("configs", "describe", "-t", "moving", "--json").json
    assert settings["configs"] == {}

    words = write_plan(plan, "moving", [1, 2], [2, 3])
    theirs(TOOL, "--execute", *words)
    wait_until_moved(ours, plan)
    assert replicas_of(ours, "moving") == [[1, 2], [2, 3]]
    for output in (ours("reassign", "--list").stdout, theirs(TOOL, "--list")):
        assert "No partition reassignments found" in output


def test_what_is_under_way_is_listed_and_cancelled_alike(ours: Ours, theirs: Theirs, plan: Path) -> None:
    ours("topics", "create", "slow", "--replica-assignment", "1:2")
    ours("produce", "slow", stdin="".join(f"{number} {'x' * 50_000}\n" for number in range(60)))

    for cancel in (ours, theirs):
        words = write_plan(plan, "slow", [3, 1])
        # A kilobyte a second for three megabytes: the move does not end before it is cancelled.
        ours("reassign", "--execute", *words, "--throttle", 1_000, "--yes")
        (mine,) = ours("reassign", "list", "--json").json
        match = re.search(r"slow-0: replicas: ([\d,]+)\. adding: ([\d,]+)\. removing: ([\d,]+)", theirs(TOOL, "--list"))
        assert match is not None
        assert list(match.groups()) == [",".join(map(str, mine[key])) for key in ("replicas", "adding", "removing")]
        assert mine["partition"] == "slow-0"
        assert [partition["state"] for partition in ours("reassign", "verify", "-f", plan, "--json").json] == ["moving"]
        assert "slow-0 is still in progress" in theirs(TOOL, "--verify", "--preserve-throttles", *words)
        if cancel is ours:
            ours("reassign", "cancel", "-f", plan, "--yes")
        else:
            assert "slow-0" in theirs(TOOL, "--cancel", *words)
        assert replicas_of(ours, "slow") == [[1, 2]]
        assert ours("reassign", "list", "--json").json == []
        (settings,) = ours("configs", "describe", "-t", "slow", "--json").json
        assert settings["configs"] == {}


def test_a_plan_that_cannot_be_is_refused_alike(ours: Ours, theirs: Theirs, plan: Path) -> None:
    ours("topics", "create", "fixed", "--replica-assignment", "1:2")
    for brokers in ([1, 77], [1, 1]):
        words = write_plan(plan, "fixed", brokers)
        assert ours("reassign", "--execute", *words, "--yes", code=1).stderr.startswith("ottla: ")
        theirs(TOOL, "--execute", *words, status=1)
        assert replicas_of(ours, "fixed") == [[1, 2]]


@contextmanager
def verification(cluster: Cluster, topic: str) -> Iterator[Any]:
    """The output of Kafka's tool, line by line; the tool runs until it is killed."""
    command = [java_command(), "-Xmx128m", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}", "-cp", jars.class_path(jars.TOOLS)]
    command += ["org.apache.kafka.tools.ReplicaVerificationTool", "--broker-list", cluster.bootstrap]
    command += ["--topics-include", topic, "--report-interval-ms", "100", "--time", "-2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process.stdout
        finally:
            process.kill()


def first(lines: Any, pattern: str) -> re.Match[str]:
    for line in lines:
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"no output has {pattern}")


def compared(ours: Ours, topic: str) -> list[dict[str, Any]]:
    """The reports after all followers have the high watermark, which comes with their next fetch."""
    while True:
        reports: list[dict[str, Any]] = ours("verify-replicas", "--topics-include", topic, "--json").json
        if not any(report["maxLag"] for report in reports):
            return reports


def test_replicas_that_are_the_same(ours: Ours, cluster: Cluster) -> None:
    ours("topics", "create", "alike", "-p", 3, "-r", 3)
    ours("produce", "alike", stdin="".join(f"{number}\n" for number in range(60)))
    reports = compared(ours, "alike")
    assert [(len(report["replicas"]), report["difference"]) for report in reports] == [(3, None)] * 3
    assert any(report["compared"] for report in reports)
    with verification(cluster, "alike") as lines:
        report = first(lines, r"max lag is (-?\d+) for partition \S+ at offset \d+ among (\d+) partitions")
    assert (report[1], int(report[2])) == ("0", len(reports))


def test_a_replica_that_differs_is_found_by_both(ours: Ours, cluster: Cluster) -> None:
    ours("topics", "create", "damaged", "--replica-assignment", "1:2:3")
    ours("produce", "damaged", stdin="one\n")
    assert [(report["compared"], report["difference"]) for report in compared(ours, "damaged")] == [(1, None)]
    segment = cluster.directories[2] / "damaged-0" / "00000000000000000000.log"
    with segment.open("r+b") as file:
        file.seek(CHECKSUM_POSITION)
        byte = file.read(1)[0]
        file.seek(CHECKSUM_POSITION)
        file.write(bytes([byte ^ 0xFF]))
    (report,) = ours("verify-replicas", "damaged", "--json", code=1).json
    assert "offset 0" in report["difference"]
    with verification(cluster, "damaged") as lines:
        assert first(lines, r"partition damaged-0.*(?:checksum|offset)")
