"""Subscriptions by regular expression, resolved by the coordinator (KIP-848).

A new expression is checked at once and resolved after the heartbeat is answered, with all others of the group, in a
decision of its own; what was found is written down and begins a new epoch when it differs from before. Expressions are
resolved again when topics have changed, but not more often than every ten seconds, and now and then in any case, since
what a member may see can change without the topics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.pattern import InvalidPattern, TopicPattern
from ottla.coordinator.group.consumer.records import epoch_record, regex_record, regex_tombstone
from ottla.coordinator.group.consumer.subscription import metadata_hash, topics_of_members
from ottla.coordinator.runtime import CoordinatorRecord, Decision
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["RegexChange", "check_regex", "plan_resolution", "update_regexes"]

logger = logging.getLogger("ottla.coordinator.group.consumer")

REFRESH_INTERVAL_MIN_MS = 10_000


class RegexChange(NamedTuple):
    has_changed: bool
    # The topics that the change means are known already.
    is_resolved: bool


def check_regex(regex: str) -> TopicPattern:
    try:
        return TopicPattern(regex)
    except InvalidPattern as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def update_regexes(
    group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, records: list[CoordinatorRecord]
) -> RegexChange:
    old, new = member.subscribed_regex, updated.subscribed_regex
    if old == new:
        return RegexChange(has_changed=False, is_resolved=False)
    others = {each.subscribed_regex for each in group.members.values() if each.member_id != member.member_id}
    if old and old not in others and old in group.resolved_regexes:
        records.append(regex_tombstone(group.group_id, old))
    if not new:
        return RegexChange(has_changed=True, is_resolved=True)
    if new not in others:
        check_regex(new)
    return RegexChange(has_changed=True, is_resolved=new in group.resolved_regexes)


def plan_resolution(
    shard: GroupShard,
    group: ConsumerGroup,
    updated: ConsumerMember,
    may_see_topic: Callable[[str], bool],
    now_ms: int,
) -> None:
    """Has the expressions of the group resolved if some are not, or not any more."""
    regexes = {each.subscribed_regex for each in group.members.values() if each.member_id != updated.member_id}
    regexes.add(updated.subscribed_regex)
    regexes.discard("")
    if not regexes or not _is_due(shard, group, regexes, now_ms):
        return
    group_id = group.group_id

    def decide(shard: GroupShard, now_ms: int) -> Decision[None]:
        return _decide_resolution(shard, group_id, may_see_topic, now_ms)

    shard.timers.schedule_if_absent(("regex", group_id), 0, decide)


def _is_due(shard: GroupShard, group: ConsumerGroup, regexes: set[str], now_ms: int) -> bool:
    resolved = group.resolved_regexes
    if any(regex not in resolved for regex in regexes):
        return True
    age_ms = now_ms - max(resolved[regex].timestamp_ms for regex in regexes)
    if age_ms >= shard.config.group_consumer_regex_refresh_interval_ms:
        return True
    has_new_topics = min(resolved[regex].version for regex in regexes) < shard.context.image.offset
    return has_new_topics and age_ms >= REFRESH_INTERVAL_MIN_MS


def _decide_resolution(
    shard: GroupShard, group_id: str, may_see_topic: Callable[[str], bool], now_ms: int
) -> Decision[None]:
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return Decision((), None)
    image = shard.context.image
    regexes = {member.subscribed_regex for member in group.members.values()} - {""}
    resolved = dict(group.resolved_regexes)
    records: list[CoordinatorRecord] = []
    has_changed = False
    visible = [name for name in image.topics.by_name if may_see_topic(name)]
    for regex in sorted(regexes):
        pattern = check_regex(regex)
        topics = frozenset(name for name in visible if pattern.matches(name))
        before = resolved.get(regex)
        has_changed = has_changed or topics != (frozenset() if before is None else before.topics)
        resolved[regex] = ResolvedRegex(topics, image.offset, now_ms)
        records.append(regex_record(group_id, regex, resolved[regex]))
    new_hash = metadata_hash(topics_of_members(group.members.values(), resolved), shard.context)
    if has_changed or new_hash != group.metadata_hash:
        records.append(epoch_record(group_id, group.epoch + 1, new_hash))
        logger.info("group %s is at epoch %d: other topics match its patterns", group_id, group.epoch + 1)
    return Decision(records, None)
