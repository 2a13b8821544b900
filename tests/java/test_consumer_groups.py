"""kafka-consumer-groups, kafka-groups, console consumer, perf test and verifiable consumer with groups."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.java.conftest import Tool

GROUPS = "ConsumerGroupCommand"
RECORDS = 20


def read_with_group(run: Tool, topic: str, group: str, count: int, *properties: str) -> list[str]:
    options = [word for property_ in properties for word in ("--command-property", property_)]
    place = ["--group", group, "--from-beginning", "--max-messages", count, "--timeout-ms", 60000]
    return run("ConsoleConsumer", "--topic", topic, *place, *options).stdout.splitlines()


def filled(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 1)
    run("ConsoleProducer", "--topic", topic, stdin="".join(f"value {number}\n" for number in range(RECORDS)))


def offsets(run: Tool, group: str) -> dict[str, list[str]]:
    """The table of `--describe`: by topic and partition, current offset, end and lag."""
    lines = run(GROUPS, "--describe", "--group", group).stdout.splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(group)]
    return {f"{row[1]}-{row[2]}": row[3:6] for row in rows}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_goes_on_where_its_group_stopped(run: Tool, topic: str, protocol: str) -> None:
    filled(run, topic)
    setting = f"group.protocol={protocol}"
    assert read_with_group(run, topic, topic, 5, setting) == [f"value {number}" for number in range(5)]
    assert offsets(run, topic) == {f"{topic}-0": ["5", str(RECORDS), str(RECORDS - 5)]}
    later_values = read_with_group(run, topic, topic, RECORDS - 5, setting)
    assert later_values == [f"value {number}" for number in range(5, RECORDS)]
    assert offsets(run, topic) == {f"{topic}-0": [str(RECORDS), str(RECORDS), "0"]}
    kind = "Classic" if protocol == "classic" else "Consumer"
    assert re.search(rf"{re.escape(topic)}\s+{kind}\s+Empty", run(GROUPS, "--list", "--state", "--type").stdout) or (
        topic in run(GROUPS, "--list", "--type", protocol).stdout
    )
    listed = next(line.split() for line in run("GroupsCommand", "--list").stdout.splitlines() if line.startswith(topic))
    assert listed == [topic, kind, "consumer"]
    state = run(GROUPS, "--describe", "--group", topic, "--state").stdout
    assert re.search(rf"{re.escape(topic)}\s.*\bEmpty\b", state), state
    members = run(GROUPS, "--describe", "--group", topic, "--members", "--verbose")
    assert "has no active members" in members.stdout + members.stderr


def test_resetting_offsets_by_every_method(run: Tool, topic: str, tmp_path: Path) -> None:
    filled(run, topic)
    read_with_group(run, topic, topic, 5)

    def reset(*how: str | int, mode: str = "--execute") -> str:
        stdout = run(GROUPS, "--reset-offsets", "--group", topic, "--topic", topic, *how, mode).stdout
        row = next(line.split() for line in stdout.splitlines() if line.startswith(topic))
        return row[-1]

    def committed() -> str:
        return offsets(run, topic)[f"{topic}-0"][0]

    assert reset("--to-latest", mode="--dry-run") == str(RECORDS)
    assert committed() == "5"
    assert reset("--to-latest") == committed() == str(RECORDS)
    assert reset("--to-earliest") == committed() == "0"
    assert reset("--to-offset", 7) == committed() == "7"
    assert reset("--shift-by", 3) == committed() == "10"
    assert reset("--shift-by", -100) == committed() == "0"
    assert reset("--to-offset", 1000) == committed() == str(RECORDS)
    assert reset("--to-datetime", "2020-01-01T00:00:00.000") == committed() == "0"
    assert reset("--to-datetime", "2100-01-01T00:00:00.000") == committed() == str(RECORDS)
    assert reset("--by-duration", "P1D") == committed() == "0"
    assert reset("--to-current") == committed() == "0"
    plan = tmp_path / "plan.csv"
    exported = ["--reset-offsets", "--group", topic, "--topic", topic, "--to-offset", 4, "--export", "--dry-run"]
    plan.write_text(run(GROUPS, *exported).stdout)
    assert plan.read_text().strip() == f'"{topic}",0,4'
    run(GROUPS, "--reset-offsets", "--group", topic, "--from-file", plan, "--execute")
    assert committed() == "4"
    assert read_with_group(run, topic, topic, 1) == ["value 4"]


def test_offsets_and_groups_are_deleted(run: Tool, topic: str) -> None:
    filled(run, topic)
    read_with_group(run, topic, topic, 5)
    output = run(GROUPS, "--delete-offsets", "--group", topic, "--topic", topic).stdout
    assert re.search(rf"{re.escape(topic)}\s+0\s+Successful", output), output
    # A group without offsets and members is a group no longer.
    read_with_group(run, topic, topic, 6)
    assert offsets(run, topic)[f"{topic}-0"][0] == "6"
    assert "successful" in run(GROUPS, "--delete", "--group", topic).stdout
    assert topic not in run(GROUPS, "--list").stdout.split()
    result = run(GROUPS, "--delete", "--group", topic, status=None)
    assert "GroupIdNotFoundException" in result.stdout + result.stderr
    assert read_with_group(run, topic, topic, 1) == ["value 0"]


def test_a_group_with_members_is_described_and_kept(run: Tool, topic: str) -> None:
    """The member belongs to another client, because the tools run one at a time."""
    from tests.integration.group_members import ConfluentMember, closing, drive

    filled(run, topic)
    bootstrap = run("TopicCommand", "--describe", "--topic", topic) and bootstrap_of(run)
    for protocol, strategy in (("classic", "range"), ("consumer", "uniform")):
        group = f"{topic}-{protocol}"
        member = ConfluentMember(bootstrap, "librdkafka", group, **{"group.protocol": protocol}).subscribe(topic)
        with closing(member):
            drive([member], lambda: len(member.records) == RECORDS, "everything is read")  # noqa: B023
            member.consumer.commit(asynchronous=False)
            state = run(GROUPS, "--describe", "--group", group, "--state").stdout.splitlines()[-1].split()
            assert state[-3:] == [strategy, "Stable", "1"], state
            row = run(GROUPS, "--describe", "--group", group).stdout.splitlines()[-1].split()
            assert row[3:6] == [str(RECORDS), str(RECORDS), "0"], row
            assert row[-1] == "librdkafka"
            row = run(GROUPS, "--describe", "--group", group, "--members", "--verbose").stdout.splitlines()[-1].split()
            assert f"{topic}:0" in row or f"{topic}(0)" in row, row
            refused = run(GROUPS, "--delete", "--group", group, status=None)
            assert "GroupNotEmptyException" in refused.stdout + refused.stderr
            refused = run(
                GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute", status=None
            )
            assert "Stable" in refused.stdout + refused.stderr
            assert member.committed((topic, 0)) == {(topic, 0): RECORDS}


def bootstrap_of(run: Tool) -> str:
    """The address that `run` gives to the tools."""
    stdout = run("BrokerApiVersionsCommand").stdout
    match = re.match(r"(\S+:\d+) ", stdout)
    assert match is not None, stdout
    return match.group(1)


def test_the_performance_tool_reads_with_a_group(run: Tool, topic: str) -> None:
    filled(run, topic)
    options = ["--topic", topic, "--group", topic, "--from-latest", "--timeout", 60000]
    result = run(
        "ConsumerPerformance", *(word for word in options if word != "--from-latest"), "--num-records", RECORDS
    )
    last = result.stdout.splitlines()[-1].split(", ")
    assert last[4] == str(RECORDS), result.stdout
    assert offsets(run, topic)[f"{topic}-0"][0] == str(RECORDS)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_consumer(run: Tool, topic: str, protocol: str) -> None:
    filled(run, topic)
    group = ["--group-id", topic, "--group-protocol", protocol, "--reset-policy", "earliest"]
    stdout = run("VerifiableConsumer", "--topic", topic, *group, "--max-messages", RECORDS).stdout
    events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    # The tool requests its own shutdown when its JVM ends, after it has reported the shutdown.
    names = [event["name"] for event in events if event["name"] != "shutdown_requested"]
    assert names[0] == "startup_complete"
    assert names[-1] == "shutdown_complete"
    assigned = [event["partitions"] for event in events if event["name"] == "partitions_assigned"]
    if protocol == "consumer":
        # The client may get its partition before it knows the topic's name, which takes a separate request: then it
        # first reports no partition, and this partition afterwards.
        assigned = [[partition for partitions in assigned for partition in partitions]]
    assert assigned[0] == [{"topic": topic, "partition": 0}]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == RECORDS
    commits = [event for event in events if event["name"] == "offsets_committed"]
    assert all(commit["success"] for commit in commits)
    assert commits[-1]["offsets"] == [{"topic": topic, "partition": 0, "offset": RECORDS}]
