"""The standard authorizer: super users, the default without ACLs, and metadata updates."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.access.loading import load_authorizer
from ottla.broker.access.standard import StandardAuthorizer
from ottla.broker.authorization import CLUSTER_NAME, AllowAll, Operation, ResourceType
from ottla.broker.context import ConnectionContext, ListenerInfo, Principal, RequestContext
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.publishers import Publishers
from ottla.model.config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def config(**settings: str) -> BrokerConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig.embedded(named)


def context(name: str, authorizer: Any, api: int = 0) -> RequestContext:
    listener = ListenerInfo(
        name="PLAINTEXT", security_protocol="PLAINTEXT", host="", port=0, advertised_host="", advertised_port=0
    )
    connection = ConnectionContext(
        listener=listener,
        client_host="10.0.0.1",
        client_port=1,
        principal=Principal("User", name),
        authorizer=authorizer,
    )
    return RequestContext(api, 0, 0, None, connection, 0)


def may_read(authorizer: StandardAuthorizer, user: str, topic: str) -> bool:
    return authorizer.authorize(context(user, authorizer), Operation.READ, ResourceType.TOPIC, topic)


def may_act(authorizer: StandardAuthorizer, user: str, api: ApiKey = ApiKey.VOTE) -> bool:
    """For requests between nodes."""
    request_context = context(user, authorizer, api)
    return authorizer.authorize(request_context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)


def allowing(number: int, topic: str, user: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid(number.to_bytes(16, "big")),
        resource_type=2,
        resource_name=topic,
        pattern_type=3,
        principal=f"User:{user}",
        host="*",
        operation=3,
        permission_type=3,
    )


def replayed(image: MetadataImage, *records: Any) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta, delta.apply(offset=image.offset + len(records), epoch=1, timestamp_ms=0)


def test_a_super_user_may_do_everything_and_others_nothing() -> None:
    authorizer = StandardAuthorizer(config(super_users="User:root; User:other"))
    assert may_read(authorizer, "root", "t")
    assert may_read(authorizer, "other", "t")
    assert not may_read(authorizer, "alice", "t")
    assert authorizer.authorize_by_resource_type(context("root", authorizer), Operation.WRITE, ResourceType.TOPIC)
    everything = AllowAll().authorized_operations(context("root", authorizer), ResourceType.TOPIC, "t")
    assert authorizer.authorized_operations(context("root", authorizer), ResourceType.TOPIC, "t") == everything
    assert authorizer.authorized_operations(context("alice", authorizer), ResourceType.TOPIC, "t") == 0


def test_a_resource_without_acls_may_be_open() -> None:
    authorizer = StandardAuthorizer(config(allow_everyone_if_no_acl_found="true"))
    authorizer.publish(*replayed(MetadataImage(), allowing(1, "closed", "alice")))
    assert may_read(authorizer, "bob", "open")
    assert not may_read(authorizer, "bob", "closed")


def test_changes_hold_at_once_and_drop_cached_decisions() -> None:
    authorizer = StandardAuthorizer(config())
    alice = context("alice", authorizer)
    image = MetadataImage()

    def allows() -> bool:
        return alice.allows_cached(Operation.READ, ResourceType.TOPIC, "t")

    assert not allows()
    delta, image = replayed(image, allowing(1, "t", "alice"), allowing(2, "t", "bob"))
    authorizer.publish(delta, image)
    assert allows()
    # Of several ACLs of a resource one is removed, and the others stay (CVE-2024-27309).
    delta, image = replayed(image, RemoveAccessControlEntryRecord(id=Uuid((2).to_bytes(16, "big"))))
    authorizer.publish(delta, image)
    assert allows()
    delta, image = replayed(image, RemoveAccessControlEntryRecord(id=Uuid((1).to_bytes(16, "big"))))
    authorizer.publish(delta, image)
    assert not allows()


def test_a_snapshot_that_lacks_an_acl_takes_it_back() -> None:
    authorizer = StandardAuthorizer(config())
    authorizer.publish(*replayed(MetadataImage(), allowing(1, "t", "alice"), allowing(2, "u", "alice")))
    assert may_read(authorizer, "alice", "t")
    # A snapshot is replayed onto an empty image, so the delta names no removals.
    authorizer.publish(*replayed(MetadataImage(), allowing(2, "u", "alice")))
    assert not may_read(authorizer, "alice", "t")
    assert may_read(authorizer, "alice", "u")


def test_equal_acls_with_two_ids_go_one_by_one() -> None:
    authorizer = StandardAuthorizer(config())
    image = MetadataImage()
    delta, image = replayed(image, allowing(1, "t", "alice"), allowing(2, "t", "alice"))
    authorizer.publish(delta, image)
    delta, image = replayed(image, RemoveAccessControlEntryRecord(id=Uuid((1).to_bytes(16, "big"))))
    authorizer.publish(delta, image)
    assert may_read(authorizer, "alice", "t")


def late(publishers: Publishers, caught_up: Deferred[None], *, is_open: bool) -> StandardAuthorizer:
    settings = config(
        authorizer_class_name=STANDARD,
        super_users="User:root",
        allow_everyone_if_no_acl_found=str(is_open).lower(),
    )
    authorizer = load_authorizer(settings, publishers, caught_up)
    assert isinstance(authorizer, StandardAuthorizer)
    return authorizer


@pytest.mark.parametrize("is_open", [True, False])
def test_only_super_users_are_served_before_the_metadata_are_current(is_open: bool) -> None:
    """An ACL that denies it may be missing."""
    publishers, caught_up = Publishers(MetadataImage()), Deferred[None]()
    authorizer = late(publishers, caught_up, is_open=is_open)
    version = authorizer.decisions_version
    alice = context("alice", authorizer)
    topic = (Operation.READ, ResourceType.TOPIC, "t")
    for ask in (
        lambda: authorizer.authorize(alice, *topic),
        lambda: authorizer.authorize_softly(alice, *topic),
        lambda: authorizer.explain(alice, *topic),
        lambda: authorizer.authorize_by_resource_type(alice, Operation.READ, ResourceType.TOPIC),
        lambda: authorizer.authorized_operations(alice, ResourceType.TOPIC, "t"),
    ):
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
    assert may_read(authorizer, "root", "t")
    publishers.publish(*replayed(publishers.image, allowing(1, "t", "alice")))
    with pytest.raises(KafkaError):
        may_read(authorizer, "alice", "t")
    caught_up.resolve(None)
    assert authorizer.decisions_version > version
    assert may_read(authorizer, "alice", "t")
    assert not may_read(authorizer, "bob", "t")
    assert may_read(authorizer, "bob", "u") is is_open


def test_elections_are_served_before_the_metadata_are_current_if_the_known_acls_allow_it() -> None:
    publishers, caught_up = Publishers(MetadataImage()), Deferred[None]()
    authorizer = late(publishers, caught_up, is_open=True)
    assert may_act(authorizer, "node")
    with pytest.raises(KafkaError):
        may_act(authorizer, "node", ApiKey.BROKER_REGISTRATION)
    acl = allowing(1, CLUSTER_NAME, "node")
    acl.resource_type, acl.operation = ResourceType.CLUSTER, Operation.CLUSTER_ACTION
    publishers.publish(*replayed(publishers.image, acl))
    assert may_act(authorizer, "node")
    # Not denied: the ACL that allows it may be missing.
    with pytest.raises(KafkaError):
        may_act(authorizer, "another node")
    caught_up.resolve(None)
    assert may_act(authorizer, "node")
    assert not may_act(authorizer, "another node")


def test_acls_that_were_never_committed_end_when_the_metadata_are_current() -> None:
    """The end of the log is presumed to be committed until another controller has answered."""
    presumed = replayed(MetadataImage(), allowing(1, "t", "alice"))[1]
    publishers, caught_up = Publishers(presumed), Deferred[None]()
    authorizer = late(publishers, caught_up, is_open=False)
    # The log was cut, and the image was loaded again. Nothing is published for an older image.
    publishers.image = MetadataImage()
    caught_up.resolve(None)
    assert not may_read(authorizer, "alice", "t")


class Nothing:
    """An authorizer of an operator."""

    decisions_version = 0

    def __init__(self, config: BrokerConfig) -> None:
        self.node_id = config.node_id

    def authorize(self, *question: Any) -> bool:
        return not question

    def authorize_by_resource_type(self, *question: Any) -> bool:
        return not question

    def authorized_operations(self, *question: Any) -> int:
        return 1 if not question else 0


def loaded(name: str) -> Any:
    return load_authorizer(config(authorizer_class_name=name), Publishers(MetadataImage()), Deferred.resolved(None))


def test_the_class_name_selects_the_authorizer() -> None:
    assert isinstance(loaded(STANDARD), StandardAuthorizer)
    plug_in = loaded(f"{__name__}.Nothing")
    assert plug_in.node_id == 1
    # A plug-in does not have to distinguish the two kinds of questions.
    request_context = context("alice", plug_in)
    assert not request_context.would_allow(Operation.READ, ResourceType.TOPIC, "t")
    assert plug_in.authorize_softly()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("com.example.Authorizer", "cannot be imported"),
        ("Authorizer", "no class"),
        (f"{__name__}.STANDARD", "no class"),
        ("builtins.str", "lacks authorize"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(name)
    assert reason in str(refused.value)
    assert "authorizer.class.name" in str(refused.value)


def test_super_users_must_be_principals() -> None:
    with pytest.raises(ConfigError, match=r"super\.users"):
        StandardAuthorizer(config(super_users="root"))


def test_the_removal_of_an_acl_leaves_its_neighbours() -> None:
    """CVE-2024-27309: one of several ACLs of a resource is removed, and the log is replayed from its beginning."""
    records = [allowing(1, "t", "alice"), allowing(2, "t", "bob"), allowing(3, "t", "carol")]
    removed = RemoveAccessControlEntryRecord(id=Uuid((2).to_bytes(16, "big")))
    _, replayed_at_once = replayed(MetadataImage(), *records, removed)
    following = StandardAuthorizer(config())
    image = MetadataImage()
    for record in (*records, removed):
        delta, image = replayed(image, record)
        following.publish(delta, image)
    restarted = StandardAuthorizer(config())
    restarted.start(replayed_at_once)
    for authorizer in (following, restarted):
        assert [may_read(authorizer, user, "t") for user in ("alice", "bob", "carol")] == [True, False, True]


def test_acls_of_groups_hold_for_their_members() -> None:
    authorizer = StandardAuthorizer(config(super_users="User:root;Group:owners"))
    rule, denial = allowing(1, "orders", "x"), allowing(2, "orders", "x")
    rule.principal, denial.principal, denial.permission_type = "Group:staff", "Group:interns", 2
    _, image = replayed(MetadataImage(cluster_id="c"), rule, denial)
    authorizer.start(image)

    def may(*groups: str, topic: str = "orders") -> bool:
        request_context = context("alice", authorizer)
        request_context.connection.identify(Principal("User", "alice", groups))
        is_allowed = authorizer.authorize(request_context, Operation.READ, ResourceType.TOPIC, topic)
        assert authorizer.explain(request_context, Operation.READ, ResourceType.TOPIC, topic)[0] is is_allowed
        assert authorizer.authorize_by_resource_type(request_context, Operation.READ, ResourceType.TOPIC) is (
            is_allowed or (topic == "secrets" and "staff" in groups)
        )
        return is_allowed

    assert may("staff", "others")
    assert not may()
    assert not may("others")
    assert not may("staff", topic="secrets")
    # A denial of one group wins over the right of another.
    assert not may("staff", "interns")
    assert may("owners", topic="secrets")
    # A user of the same name is not a group.
    assert not authorizer.authorize(context("staff", authorizer), Operation.READ, ResourceType.TOPIC, "orders")
