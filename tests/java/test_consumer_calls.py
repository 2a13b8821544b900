"""What the calls of the Java consumer return and throw, under both protocols."""

from __future__ import annotations

import pytest

from tests.java.conftest import Tool


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_calls_of_a_consumer(run: Tool, run_client: Tool, topic: str, protocol: str) -> None:
    run("TopicCommand", "--create", "--topic", topic)
    run("ConsoleProducer", "--topic", topic, stdin="".join(f"value {number}\n" for number in range(10)))
    stdout = run_client("ConsumerCalls", topic, protocol).stdout
    all_records = "0 1 2 3 4 5 6 7 8 9 in polls of up to 4"
    assert dict(line.split(": ", 1) for line in stdout.splitlines()) == {
        "partitionsFor": "1",
        "poll before subscribing": "IllegalStateException",
        "assign after subscribing": "IllegalStateException",
        "first poll of nothing": "0",
        "records": all_records,
        "assignment": "true",
        "position": "10",
        "committed before": "null",
        "seek": "7 7 8 9 in polls of up to 3",
        "seekToBeginning": "0",
        "seekToEnd": "10",
        "seek out of range is reset": "0",
        "seek below zero": "IllegalArgumentException",
        "paused": "0 1",
        "resumed": all_records,
        "commitSync": "4 four",
        "commitAsync": "6 null",
        "another thread": "ConcurrentModificationException, poll: WakeupException",
        "wakeup before poll": "WakeupException",
        "next member starts at": "6",
        "commitSync of a stranger": "CommitFailedException",
        "commitAsync of a stranger": "[1 CommitFailedException, 2 CommitFailedException]",
        "commitAsync of a member": "[7 done, 8 done]",
        "what they left": "8",
        "no offset and no policy": "NoOffsetForPartitionException",
        "subscribe after assigning": "IllegalStateException",
        "alone": all_records,
        "alone commits": "10",
        "position of an unassigned partition": "TimeoutException",
        "partitionsFor without a broker": "TimeoutException",
        "committed without a broker": "TimeoutException",
        "poll without a broker": "0 in time",
    }
