"""Groups through the API: lists, progress, lag over time, and resets with a preview."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.support.consoles import Browser


@pytest.fixture(scope="module")
def numbers(cluster: ottla.testing.Cluster) -> str:
    """20 records in each of 2 partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("numbers", 2)])["numbers"].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(40):
        producer.produce("numbers", value=str(number), partition=number % 2, timestamp=1_700_000_000_000 + number)
    producer.flush(60)
    return "numbers"


def consumer_of(cluster: ottla.testing.Cluster, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})


@pytest.fixture
def group(cluster: ottla.testing.Cluster, numbers: str) -> str:
    """A group without members, at offset 5 of both partitions."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    consumer = consumer_of(cluster, name)
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(numbers, number, 5) for number in (0, 1)], asynchronous=False)
            break
        except KafkaException:
            # The first group of a cluster waits for its coordinator.
            assert time.monotonic() < deadline
    consumer.close()
    return name


@pytest.fixture
def busy(cluster: ottla.testing.Cluster, numbers: str) -> Iterator[str]:
    """A group with a member."""
    name = f"b-{uuid.uuid4().hex[:8]}"
    consumer = consumer_of(cluster, name)
    consumer.subscribe([numbers])
    assert consumer.poll(60) is not None
    consumer.commit(asynchronous=False)
    yield name
    consumer.close()


def after(answer: dict[str, list[dict[str, int]]]) -> list[tuple[int, int]]:
    return [(offset["before"], offset["after"]) for offset in answer["offsets"]]


def test_groups_are_listed_with_their_lag(browser: Browser, group: str) -> None:
    deadline = time.monotonic() + 60
    # A list that was read a moment ago is shown again, so a new group may be missing at first.
    while not (items := browser.get(f"/api/groups?filter={group}")["items"]):
        assert time.monotonic() < deadline
    (item,) = items
    assert item | {"coordinator": 1} == {
        "id": group,
        "kind": "classic",
        "protocol_type": "",
        "state": "Empty",
        "members": 0,
        "lag": 30,
        "coordinator": 1,
    }
    assert browser.get(f"/api/groups?filter={group}&kind=share")["total"] == 0
    assert browser.get(f"/api/groups?filter={group}&state=empty")["total"] == 1
    assert browser.failure("GET", "/api/groups?kind=secret") == (400, "INVALID_REQUEST")


def test_a_group_tells_its_progress(browser: Browser, group: str, numbers: str) -> None:
    description = browser.get(f"/api/groups/{group}")
    assert [(row["partition"], row["committed"], row["last_offset"], row["lag"]) for row in description["offsets"]] == [
        (0, 5, 20, 15),
        (1, 5, 20, 15),
    ]
    assert (description["can_reset"], description["why_not"]) == (True, None)
    assert description["lag_history"][-1][1] == 30
    assert group in {reader["id"] for reader in browser.get(f"/api/topics/{numbers}/groups")["items"]}


def test_a_group_with_members(browser: Browser, busy: str) -> None:
    description = browser.get(f"/api/groups/{busy}")
    (member,) = description["member_list"]
    assert len(member["partitions"]) == 2
    assert {row["member"] for row in description["offsets"]} == {member["id"]}
    assert not description["can_reset"]
    assert description["why_not"] == "The group is Stable and has an active member; stop its consumers first."
    body = {"to": "earliest", "dry_run": True}
    assert browser.failure("POST", f"/api/groups/{busy}/reset", body) == (409, "NON_EMPTY_GROUP")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"to": "earliest"}, [(5, 0), (5, 0)]),
        ({"to": "latest", "topics": ["numbers"]}, [(5, 20), (5, 20)]),
        ({"to": "offset", "offset": 99}, [(5, 20), (5, 20)]),
        ({"to": "shift", "shift": -2}, [(5, 3), (5, 3)]),
        ({"to": "timestamp", "timestamp": 1_700_000_000_010}, [(5, 5), (5, 5)]),
        ({"to": "offset", "offset": 7, "partitions": [{"topic": "numbers", "partition": 1}]}, [(5, 7)]),
    ],
)
def test_every_way_to_reset(browser: Browser, group: str, body: dict[str, object], wanted: list[object]) -> None:
    planned = browser.change("POST", f"/api/groups/{group}/reset", {**body, "dry_run": True})
    assert after(planned) == wanted
    assert {row["committed"] for row in browser.get(f"/api/groups/{group}")["offsets"]} == {5}
    browser.change("POST", f"/api/groups/{group}/reset", body)
    now = {row["partition"]: row["committed"] for row in browser.get(f"/api/groups/{group}")["offsets"]}
    assert [now[row["partition"]] for row in planned["offsets"]] == [offset for _, offset in wanted]


def test_offsets_of_another_group(browser: Browser, group: str, busy: str) -> None:
    other = {row["partition"]: row["committed"] for row in browser.get(f"/api/groups/{busy}")["offsets"]}
    changed = browser.change("POST", f"/api/groups/{group}/reset", {"to": "group", "group": busy})
    assert {row["partition"]: row["after"] for row in changed["offsets"]} == {
        number: offset for number, offset in other.items() if offset is not None
    }


def test_a_reset_warns_of_what_is_skipped(browser: Browser, group: str) -> None:
    planned = browser.change("POST", f"/api/groups/{group}/reset", {"to": "latest", "dry_run": True})
    assert planned["warnings"] == ["The group will never read 30 records."]


def test_offsets_and_groups_are_deleted(browser: Browser, group: str, numbers: str) -> None:
    browser.change("POST", f"/api/groups/{group}/delete-offsets", {"topics": [numbers]})
    # A group without offsets and members is gone, or is empty for a while.
    status, body = browser.ask("GET", f"/api/groups/{group}")
    assert status == 404 or body["offsets"] == []


def test_a_group_is_deleted(browser: Browser, group: str) -> None:
    browser.change("DELETE", f"/api/groups/{group}", {})
    assert browser.failure("GET", f"/api/groups/{group}") == (404, "GROUP_ID_NOT_FOUND")
    assert browser.failure("DELETE", f"/api/groups/{group}", {}) == (404, "GROUP_ID_NOT_FOUND")
