"""Names and filters, by the rules of MirrorMaker 2."""

from __future__ import annotations

import pytest

from ottla.mirror.names import GROUPS_EXCLUDED, TOPICS_EXCLUDED, IdentityPolicy, NameFilter, PrefixPolicy


def test_a_copy_is_named_after_its_source() -> None:
    policy = PrefixPolicy()
    assert policy.target_name("a", "t") == "a.t"
    assert policy.target_name("b", "a.t") == "b.a.t"
    assert [policy.came_from(topic) for topic in ("t", "a.t", "b.a.t", ".t")] == [None, "a", "b", None]
    assert policy.checkpoints_topic("a") == "a.checkpoints.internal"
    assert policy.offset_syncs_topic("b") == "mm2-offset-syncs.b.internal"
    assert PrefixPolicy("_", has_own_internal_separator=True).checkpoints_topic("a") == "a_checkpoints_internal"
    assert PrefixPolicy("_").checkpoints_topic("a") == "a.checkpoints.internal"


def test_under_identity_only_heartbeats_are_renamed() -> None:
    policy = IdentityPolicy()
    assert policy.target_name("a", "t") == "t"
    assert policy.target_name("a", "heartbeats") == "a.heartbeats"
    assert [policy.came_from(topic) for topic in ("t", "a.t", "a.heartbeats")] == [None, None, "a"]


@pytest.mark.parametrize(
    ("name", "is_copied"),
    [("orders", True), ("mm2-configs.a.internal", False), ("x.replica", False), ("__consumer_offsets", False)],
)
def test_internal_topics_are_not_copied(name: str, is_copied: bool) -> None:
    assert NameFilter(".*", TOPICS_EXCLUDED).matches(name) is is_copied


def test_exclusions_win_and_patterns_match_whole_names() -> None:
    chosen = NameFilter("orders, order-.*", "order-test")
    assert chosen.select(["orders", "orders2", "order-1", "order-test"]) == ["order-1", "orders"]
    assert not NameFilter("").matches("orders")
    assert not NameFilter(".*", GROUPS_EXCLUDED).matches("connect-sink")
