"""Properties files of MirrorMaker 2, and the errors for files that cannot work."""

from __future__ import annotations

import pytest

from ottla.mirror.copying.pairs import is_copied
from ottla.mirror.names import IdentityPolicy
from ottla.mirror.settings import MirrorError, OffsetMode, read_settings

TWO = {"clusters": "a, b", "a.bootstrap.servers": "h1:1", "b.bootstrap.servers": "h2:2"}
# From the documentation of MirrorMaker 2, with every kind of key.
FULL = {
    **TWO,
    "a->b.enabled": "true",
    "a->b.topics": "foo.*, bar",
    "b->a.enabled": "false",
    "topics.exclude": "x.*",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.interval.seconds": "5",
    "a.producer.linger.ms": "5",
    "b.consumer.isolation.level": "read_committed",
    "dedicated.mode.enable.internal.rest": "true",
    "tasks.max": "3",
}


def test_a_usual_file() -> None:
    (flow,) = read_settings(FULL).flows
    assert (flow.name, flow.tasks, flow.replication_factor) == ("a->b", 3, 1)
    assert flow.topics.select(["foo1", "bar", "bars", "x1"]) == ["bar", "foo1"]
    assert (flow.sync_acls_s, flow.heartbeats_s, flow.sync_groups_s) == (0, 5, 0)
    assert flow.offset_mode is OffsetMode.TRANSLATED
    assert str(flow.source_client.bootstrap_servers[0]) != str(flow.target_client.bootstrap_servers[0])


def test_two_directions_under_identity_cut_cycles() -> None:
    keys = {"a->b.enabled": "true", "b->a.enabled": "true", "replication.policy.class": "IdentityReplicationPolicy"}
    flows = read_settings({**TWO, **keys}).flows
    assert [flow.name for flow in flows] == ["a->b", "b->a"]
    assert all(flow.cuts_cycles and isinstance(flow.policy, IdentityPolicy) for flow in flows)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clusters": "a"}, "two clusters"),
        ({"clusters": "a, a"}, "twice"),
        ({"b.bootstrap.servers": ""}, "b.bootstrap.servers"),
        ({"a->b.enabled": "false"}, "a->b.enabled"),
        ({"a->b.enabled": "yes"}, "true or false"),
        ({"a->c.enabled": "true"}, "cluster c"),
        ({"a->b.topcis": "x"}, "Did you mean topics"),
        ({"refresh.topics.intervall.seconds": "3"}, "refresh.topics.interval.seconds"),
        ({"a->b.topics": "("}, "no pattern"),
        ({"tasks.max": "0"}, "1 or more"),
        ({"tasks.max": "x"}, "a number"),
        ({"replication.policy.class": "com.acme.Policy"}, "com.acme.Policy"),
        ({"topic.filter.class": "com.acme.Filter"}, "class of Java"),
        ({"ottla.offsets": "same"}, "translated, exact"),
        ({"use.defaults.from": "source"}, "target"),
        ({"ottla.commit.interval.ms": "60000"}, "30000 or less"),
        ({"heartbeats.topic.replication.factor": "x"}, "a number"),
        ({"a.sasl.mechanism": "PLAIN", "a.consumer.sasl.mechanism": "SCRAM-SHA-256"}, "one login"),
        ({"a->b.producer.sasl.mechanism": "PLAIN"}, "b.sasl.mechanism"),
        (
            {"ottla.offsets": "exact", "b->a.enabled": "true", "replication.policy.class": "IdentityReplicationPolicy"},
            "one writer",
        ),
    ],
)
def test_what_cannot_work_is_said_in_a_sentence(changes: dict[str, str], said: str) -> None:
    with pytest.raises(MirrorError, match=r".+") as raised:
        read_settings({**TWO, "a->b.enabled": "true", **changes})
    assert said in str(raised.value)
    assert str(raised.value).endswith((".", "?"))


def test_an_empty_exclude_excludes_nothing() -> None:
    (flow,) = read_settings({**TWO, "a->b.enabled": "true", "topics.exclude": "", "groups.exclude": ""}).flows
    assert flow.topics.matches("x.replica")
    assert flow.groups.matches("connect-x")


def test_positions_of_mirrors_are_no_groups_to_follow() -> None:
    (flow,) = read_settings({**TWO, "a->b.enabled": "true", "groups.exclude": ""}).flows
    assert not any(map(flow.groups.matches, [flow.group_id, "mirror-b-a", f"{flow.group_id}-return"]))
    assert all(map(flow.groups.matches, ["mirror", "mirror-a", "mirror-a-c", "my-mirror-a-b"]))


def test_the_login_of_a_role_is_that_of_the_cluster() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="u" password="p";',
    }
    keys = {f"a.{role}.{key}": value for role in ("consumer", "admin") for key, value in login.items()}
    (flow,) = read_settings({**TWO, "a->b.enabled": "true", **keys}).flows
    assert flow.source_client.login is not None
    assert flow.target_client.login is None


@pytest.mark.parametrize("topic", ["__x", "b.checkpoints.internal", "mm2-offset-map.b.internal", "connect-internal"])
def test_internal_topics_are_not_copied_whatever_is_excluded(topic: str) -> None:
    (flow,) = read_settings({**TWO, "a->b.enabled": "true", "topics.exclude": "", "topics": ".*"}).flows
    assert not is_copied(flow, topic, is_internal=False)
    assert is_copied(flow, "internal", is_internal=False)
