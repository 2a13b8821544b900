"""Subscriptions by regular expression, resolved by the coordinator (KIP-848).

A new expression is checked at once. It is resolved after the heartbeat is answered, together with the other expressions
of the group. The result is recorded, and a changed result begins a new epoch. Expressions are resolved again when
topics have changed, at most every ten seconds, and periodically, because the topics that a member may describe can
change without a change of topics.

Clients choose the expressions, so their work is bounded (`RegexAllowance`): all groups together get a few milliseconds
out of twenty. An expression that takes too much work for the existing topics is given up, and matches no topics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.pattern import InvalidPattern, TopicPattern
from ottla.coordinator.group.consumer.records import epoch_record, regex_record, regex_tombstone
from ottla.coordinator.group.consumer.subscription import metadata_hash, topics_of_members
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.metadata.image import MetadataImage

__all__ = ["RegexChange", "check_regex", "plan_resolution", "update_regexes"]

logger = logging.getLogger("ottla.coordinator.group.consumer")

REFRESH_INTERVAL_MIN_MS = 10_000
# A step ends at this work, or after one character of a name.
STEP_WORK = 2_000
# The work for a name whose characters take the automaton to known states, apart from its length.
NAME_WORK = 4
# The work for one expression and all topics: about three seconds. Usual expressions take a thousandth of it.
WORK_MAX = 10_000_000


class RegexChange(NamedTuple):
    has_changed: bool
    # The topics of the changed expression are known already.
    is_resolved: bool


def check_regex(regex: str) -> TopicPattern:
    try:
        return TopicPattern(regex)
    except InvalidPattern as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{regex!r} is not a valid regular expression: {error}.",
        ) from error


def update_regexes(
    group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, records: list[CoordinatorRecord]
) -> RegexChange:
    old, new = member.subscribed_regex, updated.subscribed_regex
    if old == new:
        return RegexChange(has_changed=False, is_resolved=False)
    if old and group.regexes.get(old) == 1 and old in group.resolved_regexes:
        records.append(regex_tombstone(group.group_id, old))
    if not new:
        return RegexChange(has_changed=True, is_resolved=True)
    if new not in group.regexes:
        check_regex(new)
    return RegexChange(has_changed=True, is_resolved=new in group.resolved_regexes)


def plan_resolution(
    shard: GroupShard,
    group: ConsumerGroup,
    updated: ConsumerMember,
    may_see_topic: Callable[[str], bool],
    now_ms: int,
) -> None:
    """Schedules the resolution of the group's expressions if some are not resolved, or not for the newest topics."""
    if not group.regexes and not updated.subscribed_regex:
        return
    regexes = {*group.regexes, updated.subscribed_regex} - {""}
    if not regexes or not _is_due(shard, group, regexes, now_ms):
        return
    key = _key(group.group_id)
    if key not in shard.timers:
        shard.timers.schedule(key, 0, _Resolution(group.group_id, shard.context.image, regexes, may_see_topic))


def _is_due(shard: GroupShard, group: ConsumerGroup, regexes: set[str], now_ms: int) -> bool:
    resolved = group.resolved_regexes
    if any(regex not in resolved for regex in regexes):
        return True
    age_ms = now_ms - max(resolved[regex].timestamp_ms for regex in regexes)
    if age_ms >= shard.config.group_consumer_regex_refresh_interval_ms:
        return True
    has_new_topics = group.seen_regex_topics is not shard.context.image.topics
    return has_new_topics and age_ms >= REFRESH_INTERVAL_MIN_MS


class _Resolution:
    """Matches all topics in slices, and decides after the last slice."""

    __slots__ = ("_group_id", "_image", "_may_see_topic", "_regexes", "_steps", "_topics_by_regex")

    def __init__(
        self, group_id: str, image: MetadataImage, regexes: Iterable[str], may_see_topic: Callable[[str], bool]
    ) -> None:
        self._group_id = group_id
        self._image = image
        self._may_see_topic = may_see_topic
        self._regexes = sorted(regexes)
        # None for an expression that cannot be read.
        self._topics_by_regex: dict[str, set[str] | None] = {}
        self._steps = self._match()

    def __call__(self, shard: GroupShard, now_ms: int) -> Decision[None]:
        allowance = shard.context.regex_allowance
        allowance.refill(now_ms)
        while allowance.work_left > 0:
            try:
                allowance.work_left -= next(self._steps)
            except StopIteration:
                return self._decide(shard, now_ms)
        shard.timers.schedule(_key(self._group_id), allowance.WINDOW_MS, self)
        return Decision((), None)

    def _match(self) -> Generator[int, None, None]:
        """Yields the work of each step. One step takes a few milliseconds at most."""
        for regex in self._regexes:
            try:
                pattern = check_regex(regex)
            except KafkaError as error:
                # The expression was accepted by a coordinator with another syntax.
                logger.warning(
                    "an expression of group %s keeps the topics that are recorded: %s", self._group_id, error
                )
                self._topics_by_regex[regex] = None
                continue
            yield pattern.size
            topics: set[str] = set()
            for name in self._image.topics.by_name:
                is_match = yield from _match_in_steps(pattern, name)
                if pattern.work > WORK_MAX:
                    self._give_up(regex)
                    topics.clear()
                    break
                if is_match and self._may_see_topic(name):
                    topics.add(name)
            self._topics_by_regex[regex] = topics

    def _give_up(self, regex: str) -> None:
        logger.warning(
            "the regular expression %.100r of group %s takes too much work for %d topics: it matches none of them",
            regex,
            self._group_id,
            len(self._image.topics.by_name),
        )

    def _decide(self, shard: GroupShard, now_ms: int) -> Decision[None]:
        group = shard.groups.get(self._group_id)
        if not isinstance(group, ConsumerGroup):
            return Decision((), None)
        group.note_regex_topics(self._image.topics)
        group_id = group.group_id
        resolved = dict(group.resolved_regexes)
        records: list[CoordinatorRecord] = []
        has_changed = False
        for regex, matches in self._topics_by_regex.items():
            if regex not in group.regexes:
                # The member with this expression has left or changed its subscription.
                continue
            before = resolved[regex].topics if regex in resolved else frozenset()
            topics = before if matches is None else frozenset(matches)
            has_changed = has_changed or topics != before
            resolved[regex] = ResolvedRegex(topics, self._image.offset, now_ms)
            records.append(regex_record(group_id, regex, resolved[regex]))
        new_hash = metadata_hash(topics_of_members(group.members.values(), resolved), shard.context)
        if has_changed or new_hash != group.metadata_hash:
            records.append(epoch_record(group_id, group.epoch + 1, new_hash))
            logger.info(
                "group %s is at epoch %d: other topics match its regular expressions", group_id, group.epoch + 1
            )
        return Decision(records, None)


def _match_in_steps(pattern: TopicPattern, name: str) -> Generator[int, None, bool]:
    """True if the name matches. Yields the work of each step, and ends early beyond `WORK_MAX`."""
    matching = pattern.matching(name)
    before = pattern.work
    is_match = False
    while pattern.work <= WORK_MAX:
        try:
            next(matching)
        except StopIteration as end:
            is_match = end.value
            break
        if pattern.work - before >= STEP_WORK:
            yield pattern.work - before
            before = pattern.work
    yield pattern.work - before + NAME_WORK + len(name) // 8
    return is_match


def _key(group_id: str) -> object:
    return ("regex", group_id)
