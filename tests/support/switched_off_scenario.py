"""Requests for disabled features of a cluster, and their answers: every API, in every version.

No SASL, no authorizer, no key for delegation tokens, and the features of share groups and streams groups at level 0.
The same requests go to Apache Kafka (`tests/data/make_switched_off_answers.py` keeps its answers) and to Ottla, to
their brokers and to their controllers. Messages become "said", because Ottla has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message, Structure
from ottla.wire.messages import alter_share_group_offsets as alter_offsets
from ottla.wire.messages import (
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_delegation_token,
    share_acknowledge,
    share_fetch,
)
from ottla.wire.messages import delete_share_group_offsets as delete_offsets
from ottla.wire.messages import delete_share_group_state as delete_state
from ottla.wire.messages import describe_share_group_offsets as describe_offsets
from ottla.wire.messages import initialize_share_group_state as initialize_state
from ottla.wire.messages import read_share_group_state as read_state
from ottla.wire.messages import read_share_group_state_summary as read_summary
from ottla.wire.messages import write_share_group_state as write_state
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["FEATURES", "play"]

# The feature levels for formatting Apache Kafka, which are Ottla's defaults.
FEATURES = ("share.version=0", "streams.version=0")

TOPIC_ID = Uuid(b"0123456789abcdef")
MEMBER = "bWVtYmVyLW9mLWdyb3Vw"

# The first version that can express the request.
_SINCE = {"create a token for somebody else": 3}
# The last version of Apache Kafka 4.3, by API key, for APIs with newer versions.
_LAST_OF_4_3 = {88: 0, 89: 0}


def play(bootstrap: str, controller: str) -> dict[str, Any]:
    """Sends all requests to a broker and to a controller; returns the answers by label, as plain values."""
    answers: dict[str, Any] = {}
    for listener, address in (("broker", bootstrap), ("controller", controller)):
        for label, request in _requests():
            spec = API_SPECS[ApiKey(request.API_KEY)]
            if listener not in spec.listeners:
                continue
            last = _LAST_OF_4_3.get(spec.key, spec.request_max_version)
            for version in range(_SINCE.get(label, spec.request_min_version), last + 1):
                answers[f"{listener}: {label}, version {version}"] = _answer(address, request, version)
    return answers


def _answer(address: str, request: Message, version: int) -> Any:
    # A connection per request, because some requests end their connection.
    with RawClient(address) as client:
        try:
            return _plain(client.call(request, version), "")
        except ConnectionClosed:
            return "closed"


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Structure):
        return {slot: _plain(getattr(value, slot), slot) for slot in value.__slots__}
    if isinstance(value, list):
        return [_plain(element, name) for element in value]
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return "said" if name == "error_message" and value else value


def _requests() -> Iterator[tuple[str, Message]]:
    yield from _authentication()
    yield from _access_rules()
    yield from _delegation_tokens()
    yield from _share_groups()
    yield from _share_group_states()
    yield from _share_group_offsets()
    yield from _streams_groups()


def _authentication() -> Iterator[tuple[str, Message]]:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "no such"):
        yield f"handshake for {mechanism!r}", SaslHandshakeRequest(mechanism=mechanism)
    yield "authenticate", SaslAuthenticateRequest(auth_bytes=memoryview(b"\0user\0password"))
    yield "authenticate with nothing", SaslAuthenticateRequest(auth_bytes=memoryview(b""))


def _access_rules() -> Iterator[tuple[str, Message]]:
    yield (
        "describe all access rules",
        DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
    )
    yield (
        "describe access rules of a kind that is unknown",
        DescribeAclsRequest(resource_type_filter=0, pattern_type_filter=0, operation=0, permission_type=0),
    )
    creations = [
        create_acls.AclCreation(
            resource_type=2, resource_name=name, principal="User:a", host="*", operation=3, permission_type=3
        )
        for name in ("one", "two", "")
    ]
    yield "create no access rule", create_acls.CreateAclsRequest()
    yield "create an access rule", create_acls.CreateAclsRequest(creations=creations[:1])
    yield "create access rules, one of them wrong", create_acls.CreateAclsRequest(creations=creations)
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        for code in (0, 99):
            fields: dict[str, Any] = {"resource_type": 2, "resource_name": "one", "operation": 3, "permission_type": 3}
            odd = create_acls.AclCreation(**{**fields, field: code})
            yield f"create an access rule with {field} {code}", create_acls.CreateAclsRequest(creations=[odd])
    for code in (1, 2):
        odd = create_acls.AclCreation(
            resource_type=code, resource_pattern_type=code, resource_name="one", operation=code, permission_type=1
        )
        yield f"create an access rule with {code} everywhere", create_acls.CreateAclsRequest(creations=[odd])
    filters = [
        delete_acls.DeleteAclsFilter(resource_type_filter=2, resource_name_filter=name, operation=1, permission_type=1)
        for name in ("one", "two")
    ]
    yield "delete no access rule", delete_acls.DeleteAclsRequest()
    yield "delete access rules", delete_acls.DeleteAclsRequest(filters=filters)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for code in (0, 99):
            fields = {"resource_type_filter": 2, "operation": 1, "permission_type": 1}
            unknown = delete_acls.DeleteAclsFilter(**{**fields, field: code})
            yield f"delete access rules with {field} {code}", delete_acls.DeleteAclsRequest(filters=[unknown])


def _delegation_tokens() -> Iterator[tuple[str, Message]]:
    renewer = create_delegation_token.CreatableRenewers(principal_type="User", principal_name="renewer")
    odd = create_delegation_token.CreatableRenewers(principal_type="Group", principal_name="renewer")
    yield "create a token", create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1)
    yield "create a token to renew", create_delegation_token.CreateDelegationTokenRequest(renewers=[renewer])
    yield "create a token that groups renew", create_delegation_token.CreateDelegationTokenRequest(renewers=[odd])
    yield (
        "create a token for somebody else",
        create_delegation_token.CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="somebody else"
        ),
    )
    hmac = memoryview(b"no token has this")
    yield "renew a token", RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=1000)
    yield "expire a token", ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=1000)
    owner = describe_delegation_token.DescribeDelegationTokenOwner(principal_type="User", principal_name="a")
    for label, owners in (("all", None), ("no", []), ("a user's", [owner])):
        yield f"describe {label} tokens", describe_delegation_token.DescribeDelegationTokenRequest(owners=owners)


def _share_groups() -> Iterator[tuple[str, Message]]:
    yield (
        "join a share group",
        ShareGroupHeartbeatRequest(group_id="g", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["t"]),
    )
    yield "join no share group", ShareGroupHeartbeatRequest(group_id="", member_id="", member_epoch=-5)
    for groups in ([], ["g"], ["g", "h", "g"]):
        yield f"describe the share groups {groups}", ShareGroupDescribeRequest(group_ids=groups)
    batch = share_fetch.AcknowledgementBatch(first_offset=0, last_offset=3, acknowledge_types=[1])
    partition = share_fetch.FetchPartition(partition_index=2, acknowledgement_batches=[batch])
    topic = share_fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
    yield (
        "share fetch",
        share_fetch.ShareFetchRequest(group_id="g", member_id=MEMBER, max_records=10, batch_size=10, topics=[topic]),
    )
    yield "share fetch of nothing", share_fetch.ShareFetchRequest(group_id="g", member_id=MEMBER)
    yield "share fetch of nobody", share_fetch.ShareFetchRequest(group_id=None, member_id=None)
    acknowledged = share_acknowledge.AcknowledgePartition(
        partition_index=2,
        acknowledgement_batches=[
            share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=3, acknowledge_types=[1])
        ],
    )
    yield (
        "acknowledge",
        share_acknowledge.ShareAcknowledgeRequest(
            group_id="g",
            member_id=MEMBER,
            share_session_epoch=1,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[acknowledged])],
        ),
    )
    yield "acknowledge of nobody", share_acknowledge.ShareAcknowledgeRequest(group_id=None, member_id=None)


def _share_group_states() -> Iterator[tuple[str, Message]]:
    kinds: list[tuple[str, Any, str, str]] = [
        ("initialize", initialize_state, "InitializeShareGroupStateRequest", "InitializeStateData"),
        ("read", read_state, "ReadShareGroupStateRequest", "ReadStateData"),
        ("write", write_state, "WriteShareGroupStateRequest", "WriteStateData"),
        ("delete", delete_state, "DeleteShareGroupStateRequest", "DeleteStateData"),
        ("read the summary of", read_summary, "ReadShareGroupStateSummaryRequest", "ReadStateSummaryData"),
    ]
    for verb, module, request_name, topic_name in kinds:
        request, topic = getattr(module, request_name), getattr(module, topic_name)
        partitions = [module.PartitionData(partition=number) for number in (0, 1)]
        topics = [topic(topic_id=TOPIC_ID, partitions=partitions)]
        yield f"{verb} a share group's state", request(group_id="g", topics=topics)
    for _, module, request_name, _ in kinds:
        yield f"{request_name} of nothing", getattr(module, request_name)(group_id="g")


def _share_group_offsets() -> Iterator[tuple[str, Message]]:
    topic = describe_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0, 1])
    group_type = describe_offsets.DescribeShareGroupOffsetsRequestGroup
    groups = [group_type(group_id="g", topics=[topic]), group_type(group_id="h", topics=None)]
    yield "describe a share group's offsets", describe_offsets.DescribeShareGroupOffsetsRequest(groups=groups)
    yield "describe no share group's offsets", describe_offsets.DescribeShareGroupOffsetsRequest()
    partition = alter_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=5)
    altered = alter_offsets.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    yield "alter share group offsets", alter_offsets.AlterShareGroupOffsetsRequest(group_id="g", topics=[altered])
    yield "alter no share group offsets", alter_offsets.AlterShareGroupOffsetsRequest(group_id="g")
    deleted = delete_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="t")
    yield "delete share group offsets", delete_offsets.DeleteShareGroupOffsetsRequest(group_id="g", topics=[deleted])
    yield "delete no share group offsets", delete_offsets.DeleteShareGroupOffsetsRequest(group_id="g")


def _streams_groups() -> Iterator[tuple[str, Message]]:
    yield (
        "join a streams group",
        StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=MEMBER,
            member_epoch=0,
            rebalance_timeout_ms=1000,
            topology=Topology(epoch=0),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="p",
            client_tags=[],
        ),
    )
    yield "join no streams group", StreamsGroupHeartbeatRequest(group_id="", member_id="", member_epoch=-5)
    for groups in ([], ["g"], ["g", "h", "g"]):
        yield f"describe the streams groups {groups}", StreamsGroupDescribeRequest(group_ids=groups)
