"""Subscriptions by regular expression: resolved by the coordinator, with a bound on their work."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.pattern import TopicPattern
from ottla.coordinator.group.state import RegexAllowance
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath


def group_of(path: GroupPath) -> ConsumerGroup:
    group = path.shard("g").groups["g"]
    assert isinstance(group, ConsumerGroup)
    group.invariants()
    return group


def topic_id(path: GroupPath) -> Uuid:
    return path.image.topics.by_name["t"].topic_id


def test_a_regular_expression_finds_topics_now_and_later(path: GroupPath) -> None:
    member = ConsumerMember(path, "g", "a", topics=None, regex="t|logs-.*")
    assert member.join() is ErrorCode.NONE
    assert (member.epoch, member.count) == (1, 0)
    path.advance(1)
    member.beat()
    assert (member.epoch, member.partitions(topic_id(path))) == (2, {0, 1, 2})
    member.converge()
    logs = path.create_topic("logs-eu", 2)
    path.advance(10_000)
    member.beat()
    path.advance(1)
    member.beat()
    assert member.partitions(logs) == {0, 1}
    member.converge()
    assert group_of(path).is_subscribed_to("logs-eu")
    member.regex = ""
    member.topics = ("t",)
    member.beat(full=True)
    member.converge()
    assert set(member.assigned) == {topic_id(path)}
    assert not group_of(path).resolved_regexes


def test_a_regular_expression_does_not_find_what_its_subscriber_may_not_see(path: GroupPath) -> None:
    for name in ("logs-eu", "logs-secret"):
        path.create_topic(name, 1)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=1000,
        subscribed_topic_regex="logs-.*",
        topic_partitions=[],
    )
    path.groups.consumer_heartbeat(
        request, api_version=1, client_id="c", client_host="/h", may_see_topic=lambda name: name != "logs-secret"
    )
    path.advance(1)
    assert group_of(path).resolved_regexes["logs-.*"].topics == {"logs-eu"}


def test_many_topics_are_matched_in_slices(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RegexAllowance, "WINDOW_WORK", 20)
    for number in range(7):
        path.create_topic(f"many-{number}", 1)
    member = ConsumerMember(path, "g", "a", topics=None, regex="many-[0-5]")
    member.join()
    path.advance(RegexAllowance.WINDOW_MS)
    assert not group_of(path).resolved_regexes
    for _ in range(20):
        path.advance(RegexAllowance.WINDOW_MS)
    assert group_of(path).resolved_regexes["many-[0-5]"].topics == {f"many-{number}" for number in range(6)}
    member.beat()
    assert member.count == 6


# A thousand optional characters: each character of a name visits thousands of states.
DEAR_REGEX = "(.?){1000}[^a]"


def test_the_work_of_all_expressions_in_a_window_is_bounded(path: GroupPath) -> None:
    for number in range(20):
        path.create_topic(f"{'a' * 200}-{number}", 1)
    members = [ConsumerMember(path, f"g{number}", "a", topics=None, regex=DEAR_REGEX) for number in range(5)]
    for member in members:
        member.join()
    allowance = path.groups.context.regex_allowance
    for _ in range(50):
        path.advance(RegexAllowance.WINDOW_MS)
        assert allowance.work_left > -TopicPattern(DEAR_REGEX).size


def test_an_expression_that_takes_too_much_work_matches_no_topics(
    path: GroupPath, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.coordinator.group.consumer.regex.WORK_MAX", 100_000)
    path.create_topic("a" * 200 + "b", 1)
    dear = ConsumerMember(path, "g", "a", topics=None, regex=DEAR_REGEX)
    usual = ConsumerMember(path, "g", "b", topics=None, regex="a+b")
    for member in (dear, usual):
        member.join()
        for _ in range(50):
            path.advance(RegexAllowance.WINDOW_MS)
    matched_topics = {regex: resolved.topics for regex, resolved in group_of(path).resolved_regexes.items()}
    assert matched_topics == {DEAR_REGEX: frozenset(), "a+b": {"a" * 200 + "b"}}
    assert "takes too much work for" in caplog.text
