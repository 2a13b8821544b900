"""Regular expressions in the log that this software cannot read: members of a coordinator with another syntax."""

from __future__ import annotations

from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import ConsumerMember as StoredMember
from ottla.coordinator.group.consumer.records import (
    assignment_epoch_record,
    current_assignment_record,
    epoch_record,
    member_record,
    regex_record,
)
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath

# RE2/J knows it.
FOREIGN = r"\p{Lu}.*"


def group_of(path: GroupPath) -> ConsumerGroup:
    group = path.shard("g").groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def test_an_expression_of_another_coordinator_does_not_keep_others_from_being_resolved(path: GroupPath) -> None:
    stored = StoredMember("kafka", member_epoch=1, previous_epoch=1, subscribed_regex=FOREIGN)
    topics = ResolvedRegex(frozenset(("Taken",)), 1, path.virtual.clock.ms)
    records = [
        epoch_record("g", 1, 0),
        member_record("g", stored),
        assignment_epoch_record("g", 1, 0),
        current_assignment_record("g", stored),
        regex_record("g", FOREIGN, topics),
    ]
    path.groups.submit("g", lambda _shard, _now_ms: Decision(records, None))
    path.run()
    path.stop()
    path.start()
    member = ConsumerMember(path, "g", "a", topics=None, regex="t|logs-.*")
    assert member.join() is ErrorCode.NONE
    path.advance(1)
    member.beat()
    assert member.partitions(path.image.topics.by_name["t"].topic_id) == {0, 1, 2}
    assert group_of(path).resolved_regexes[FOREIGN].topics == {"Taken"}, "what its coordinator has found stays"
