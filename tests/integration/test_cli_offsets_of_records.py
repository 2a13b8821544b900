"""Commands with a node: offsets that a stop commits, and the partitions that options of groups select."""

from __future__ import annotations

import json

import pytest

from tests.integration.group_members import create_topic
from tests.integration.test_cli_records import Call, bootstrap, call

__all__ = ["bootstrap", "call"]


def committed(call: Call, group: str) -> dict[tuple[str, int], int]:
    (described,) = json.loads(call("groups", "describe", group, "--json").out)
    return {(row["topic"], row["partition"]): row["currentOffset"] for row in described["offsets"]}


def test_a_stop_time_commits_only_the_printed_records(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 1, name="until")
    lines = "".join(f'{{"value": "{second}", "timestamp": {second * 1000}}}\n' for second in range(1, 7))
    call("produce", "until", "-i", "json", stdin=lines.encode())
    first = call("consume", "until", "-g", "of-until", "-F", "--to", "4000")
    assert first.out == b"1\n2\n3\n"
    assert committed(call, "of-until") == {("until", 0): 3}
    assert call("consume", "until", "-g", "of-until", "-e").out == b"4\n5\n6\n"


@pytest.mark.parametrize("method", ["reset", "delete"])
def test_a_topic_that_is_named_for_each_partition(bootstrap: str, call: Call, method: str) -> None:
    name = f"named-{method}"
    group = f"of-{name}"
    create_topic(bootstrap, 3, name=name)
    for partition in range(3):
        call("produce", name, "-p", str(partition), stdin=b"a\nb\n")
    assert call("consume", name, "-g", group, "-F", "-n", "6").code == 0
    selected = ["--topic", f"{name}:0", "--topic", f"{name}:1,2", "--topic", f"{name}:0"]
    if method == "reset":
        answer = call("groups", "reset-offsets", "-g", group, *selected, "--to-earliest", "--execute")
        expected = {(name, partition): 0 for partition in range(3)}
    else:
        answer = call("groups", "delete-offsets", "-g", group, *selected, "--yes")
        expected = {}
    assert answer.code == 0, answer.err
    assert committed(call, group) == expected


def test_all_topics_are_the_committed_partitions(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 2, name="half-read")
    call("produce", "half-read", "-p", "0", stdin=b"a\nb\n")
    call("groups", "reset-offsets", "-g", "of-half", "--topic", "half-read:0", "--to-latest", "--execute")
    answer = call("groups", "reset-offsets", "-g", "of-half", "--all-topics", "--shift-by", "-1", "--execute")
    assert answer.code == 0, answer.err
    assert committed(call, "of-half") == {("half-read", 0): 1}


def test_a_description_without_an_entity_is_an_invalid_command_line(call: Call) -> None:
    for verb in (["describe"], ["alter", "--set", "retention.ms=1"]):
        answer = call("configs", *verb, "-b", "127.0.0.1:1")
        assert answer.code == 2
        assert answer.err.startswith("ottla: Missing entity")


def test_all_groups_are_reset_beside_a_group_without_offsets(bootstrap: str, call: Call) -> None:
    create_topic(bootstrap, 1, name="of-every-group")
    call("produce", "of-every-group", stdin=b"a\nb\n")
    selected = ["--topic", "of-every-group"]
    call("groups", "reset-offsets", "-g", "has-none", *selected, "--to-latest", "--execute")
    call("groups", "reset-offsets", "-g", "has-one", *selected, "--to-latest", "--execute")
    assert call("consume", "of-every-group", "-g", "joined-only", "--timeout-ms", "100").code == 0
    call("groups", "delete-offsets", "-g", "joined-only", *selected, "--yes")
    answer = call("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-earliest", "--execute")
    assert answer.code == 0, answer.err
    assert committed(call, "has-one") == {("of-every-group", 0): 0}
