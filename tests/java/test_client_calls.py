"""The calls of the Java administrator and producer, with the clients of two releases."""

from __future__ import annotations

from tests.java.conftest import Tool


def test_the_calls_of_administrator_and_producer(run_client: Tool, topic: str) -> None:
    stdout = run_client("ClientCalls", topic).stdout
    assert dict(line.split(": ", 1) for line in stdout.splitlines()) == {
        "create": "1",
        "create again": "TopicExistsException",
        "more partitions": "2",
        "set": "123456",
        "a node": "1",
        "features": "true",
        "produce with none": "9",
        "produce with gzip": "19",
        "produce with snappy": "29",
        "produce with lz4": "39",
        "produce with zstd": "49",
        "end": "50",
        "delete records": "5",
        "start": "5",
        "producers": "5",
        "transactions": "done",
        "offsets of an unknown generation": "CommitFailedException",
        "what is committed": "[committed]",
        "the transaction": "CompleteAbort",
        "listed": "1",
        "committed offset": "7",
        "delete a group in use": "GroupNotEmptyException",
        "delete the group": "null",
        "delete a group that is not there": "GroupIdNotFoundException",
        "groups": f"[{topic}-used]",
        "delete the topic": "null",
        "delete it again": "UnknownTopicOrPartitionException",
    }
