"""Rights in a cluster with an authorizer: honest clients are users with ACLs, and the rights of guests change.

Nodes and the administrator are super users. The administrator gives every right to the user of the honest clients
before the run begins, so that any refusal of an honest client is a violation: rules must survive whatever is killed.
Then it adds and removes rules about the guests, and a SCRAM credential.

A change holds on a broker once the broker has replayed it (Kafka promises no more). A guest compares an answer with the
newest change only if the broker had replayed that change when the guest sent its request, and no other change has begun
before the answer came.

A broker may pass on a request long after its client has given up. It would undo a later change of the same rule, so the
administrator leaves a rule alone for a while after such a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.broker.context import ConnectionContext, Principal
from ottla.metadata.image import AclEntry, MetadataImage
from ottla.model.access import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.client import SimClient
from ottla.sim.history import History
from ottla.sim.tasks import sleep
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.message import Message, Structure
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peers import Endpoint, PeerUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "GUARDED",
    "INTRUDERS_NETWORK",
    "SETTINGS",
    "ChangeRights",
    "GiveRights",
    "Guest",
    "by_network",
    "report_refusals",
]

INTRUDERS_NETWORK, GUESTS_NETWORK, ADMINISTRATORS_NETWORK = "10.0.9.", "10.0.7.", "10.0.8."
USERS = {
    INTRUDERS_NETWORK: "intruder",
    GUESTS_NETWORK: "guest",
    ADMINISTRATORS_NETWORK: "administrator",
    Workload.network: "honest",
}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:administrator",
    "principal.builder.class": "ottla.sim.workloads.rights.by_network",
}
# The topic that guests ask for. Other workloads do not use it.
GUARDED = TopicPartition("guarded", 0)
SERVED, CURRENT = "rights survive", "changed rights are obeyed"
REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# The time that a broker tries to forward a request to the controller (request.timeout.ms), and some seconds more.
LATE_SECONDS = 35.0
SCRAM_SHA_256 = 1
SCRAM_USER = "guest"
# Records by topic names have no place in newer versions.
_NAMES_VERSION_MAX = 12
# Names that are not `error_code` in the answers of transactional requests.
_ERROR_FIELDS = ("error_code", "partition_error_code")


def by_network(connection: ConnectionContext, principal: Principal) -> Principal:
    """The principal of a connection: clients are users by their network, nodes keep their principal."""
    user = USERS.get(connection.client_host.rpartition(".")[0] + ".")
    return principal if user is None else Principal("User", user)


def refusals(value: Any) -> list[ErrorCode]:
    """The authorization errors in an answer."""
    if isinstance(value, Structure):
        codes = [getattr(value, name) for name in _ERROR_FIELDS if hasattr(value, name)]
        refused = [ErrorCode(code) for code in codes if code in REFUSALS]
        return refused + [code for slot in value.__slots__ for code in refusals(getattr(value, slot))]
    return [code for element in value for code in refusals(element)] if isinstance(value, list) else []


def report_refusals(client: SimClient, history: History) -> None:
    """Reports every refusal of this honest client as a violation from now on."""

    def check(request: Message, answer: Message) -> None:
        for code in refusals(answer):
            history.report_violation(SERVED, f"{type(request).__name__} of {client.name} was refused: {code.name}")

    client.on_answer = check


@dataclass(slots=True)
class Right:
    """A right or credential in the view of the administrator: given or not, from an offset of the log on."""

    is_given: bool = False
    # The offset of an image that has the newest change; None while a change is under way, or if no image shows it.
    known_since: int | None = None
    changes: int = 0

    def begin_change(self) -> None:
        self.changes += 1
        self.known_since = None


class GiveRights(Workload):
    """Everything for the user of the honest clients."""

    network = ADMINISTRATORS_NETWORK

    async def run(self) -> None:
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        resources = [*((kind, "*") for kind in kinds), (ResourceType.CLUSTER, CLUSTER_NAME)]
        entries = [_entry("honest", kind, name, Operation.ALL, Permission.ALLOW) for kind, name in resources]
        await _until_accepted(self, CreateAclsRequest(creations=[_creation(entry) for entry in entries]))
        nodes = self.stage.cluster.nodes.values()
        # Brokers replay the rules a moment after they are committed.
        while not all(node.broker and node.broker.metadata.image.acls.ids.keys() >= set(entries) for node in nodes):
            await self.client.back_off()


class ChangeRights(Workload):
    """Adds and removes rules that allow or deny the guarded topic to guests, and a credential."""

    network = ADMINISTRATORS_NETWORK

    def __init__(self, stage: Stage, name: str, *, pause_seconds: float) -> None:
        super().__init__(stage, name)
        self._pause_seconds = pause_seconds
        self.rights = {Operation.READ: Right(), Operation.WRITE: Right()}
        self.credential = Right()
        self._rules: set[AclEntry] = set()
        # The time from which a rule, or the credential (None), may be changed again after an abandoned request.
        self._not_before: dict[AclEntry | None, float] = {}

    async def run(self) -> None:
        while not self.stage.is_ending:
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))
            draw = self.random.random()
            if draw < 0.2:
                await self._change_credential()
            elif draw < 0.4:
                await self._check_credential()
            else:
                await self._change_rule(self.random.choice(list(self.rights)))

    async def _change_rule(self, operation: Operation) -> None:
        right = self.rights[operation]
        permission = self.random.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY))
        rule = _entry("guest", ResourceType.TOPIC, GUARDED.topic, operation, permission)
        if self._may_be_undone(rule):
            return
        right.begin_change()
        is_added = rule not in self._rules
        change = self._begin(lambda image: (rule in image.acls.ids) == is_added)
        if is_added:
            self._rules.add(rule)
            await self._change(rule, CreateAclsRequest(creations=[_creation(rule)]))
        else:
            self._rules.remove(rule)
            await self._change(rule, DeleteAclsRequest(filters=[_filter(rule)]))
        allow, deny = (rule._replace(permission_type=permission) for permission in (Permission.ALLOW, Permission.DENY))
        right.is_given = allow in self._rules and deny not in self._rules
        right.known_since = change()
        self.client.kernel.counts[f"{operation.name} {'given' if right.is_given else 'taken'}"] += 1

    def _may_be_undone(self, rule: AclEntry | None) -> bool:
        return self.client.kernel.now_seconds < self._not_before.get(rule, 0.0)

    async def _change(self, rule: AclEntry | None, request: Message) -> None:
        if await _until_accepted(self, request):
            self._not_before[rule] = self.client.kernel.now_seconds + LATE_SECONDS

    async def _change_credential(self) -> None:
        if self._may_be_undone(None):
            return
        self.credential.begin_change()
        is_added, key = not self.credential.is_given, (SCRAM_USER, SCRAM_SHA_256)
        change = self._begin(lambda image: (key in image.scram) == is_added)
        if is_added:
            upsertion = ScramCredentialUpsertion(
                name=SCRAM_USER, mechanism=SCRAM_SHA_256, iterations=4096, salt=b"salt", salted_password=b"password"
            )
            await self._change(None, AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        else:
            deletion = ScramCredentialDeletion(name=SCRAM_USER, mechanism=SCRAM_SHA_256)
            await self._change(None, AlterUserScramCredentialsRequest(deletions=[deletion]))
        self.credential.is_given = is_added
        self.credential.known_since = change()

    async def _check_credential(self) -> None:
        endpoint = self.random.choice(self.stage.cluster.endpoints)
        if not knows(self.stage, endpoint, self.credential):
            return
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=SCRAM_USER)])
        try:
            answer = await self.client.ask(endpoint, request, DescribeUserScramCredentialsResponse)
        except PeerUnreachable:
            return
        is_there = answer.results[0].error_code == ErrorCode.NONE
        self.client.kernel.counts[f"credential {'there' if is_there else 'gone'}"] += 1
        if is_there is not self.credential.is_given:
            self.history.report_violation(CURRENT, f"{endpoint.host} has a credential: {is_there}, which is outdated")

    def _begin(self, has_change: Callable[[MetadataImage], bool]) -> Callable[[], int | None]:
        """Call it before a change, and the result after it: the offset of an image that has the change, or None.

        All images from that offset on have it: they are states of one log. An older image may look as if it had the
        change, because it lacks the change before. So the newest image of the beginning must not have it, and only
        images behind that one count.
        """
        newest = max(self._images(), key=lambda image: image.offset, default=None)

        def first_offset() -> int | None:
            if newest is None or has_change(newest):
                return None
            later = [image.offset for image in self._images() if image.offset > newest.offset and has_change(image)]
            return min(later, default=None)

        return first_offset

    def _images(self) -> list[MetadataImage]:
        return [node.broker.metadata.image for node in self.stage.cluster.nodes.values() if node.broker is not None]


class Guest(Workload):
    """Asks for the guarded topic and for credentials, and compares the answers with its rights."""

    network = GUESTS_NETWORK

    def __init__(self, stage: Stage, name: str, administrator: ChangeRights) -> None:
        super().__init__(stage, name)
        self._administrator = administrator

    async def run(self) -> None:
        while not self.stage.is_ending:
            endpoint = self.random.choice(self.stage.cluster.endpoints)
            operation = self.random.choice((Operation.READ, Operation.WRITE))
            try:
                await self._ask(endpoint, operation)
            except PeerUnreachable:
                await self.client.back_off()
                continue
            await sleep(self.client.process, self.random.uniform(0, 0.3))

    async def _ask(self, endpoint: Endpoint, operation: Operation) -> None:
        right = self._administrator.rights[operation]
        changes, is_known = right.changes, knows(self.stage, endpoint, right)
        request = self._request(operation)
        answer = await self.client.ask(endpoint, request, Message, version_max=_NAMES_VERSION_MAX)
        if not is_known or right.changes != changes:
            return
        is_refused = bool(refusals(answer))
        self.client.kernel.counts[f"guest {'refused' if is_refused else 'served'}"] += 1
        if is_refused is right.is_given:
            self._report(endpoint, request, right)
        if not right.is_given and isinstance(answer, FetchResponse) and _has_records(answer):
            self.history.report_violation(CURRENT, f"{endpoint.host} sent records to a guest without rights")

    def _report(self, endpoint: Endpoint, request: Message, right: Right) -> None:
        right_now = f"{'has' if right.is_given else 'has not'} the right since offset {right.known_since}"
        outcome = "refused" if right.is_given else "allowed"
        self.history.report_violation(
            CURRENT, f"{endpoint.host} {outcome} {type(request).__name__} of a guest that {right_now}"
        )

    def _request(self, operation: Operation) -> Message:
        topic, index = GUARDED
        if operation is Operation.WRITE:
            records = memoryview(build_batch([Record(value=b"guest", timestamp=0)]))
            data = PartitionProduceData(index=index, records=records)
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            return ProduceRequest(acks=self.random.choice((1, -1)), timeout_ms=1_000, topic_data=topics)
        wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
        named = [FetchTopic(topic=topic, topic_id=Uuid.ZERO, partitions=[wanted])]
        return FetchRequest(max_bytes=10_000, max_wait_ms=self.random.choice((0, 200)), topics=named)


def knows(stage: Stage, endpoint: Endpoint, right: Right) -> bool:
    """True if the broker has replayed the newest change."""
    broker = stage.cluster.node_at(endpoint.host).broker
    return right.known_since is not None and broker is not None and broker.metadata.image.offset >= right.known_since


async def _until_accepted(workload: Workload, request: Message) -> bool:
    """Repeats a change that any number of repetitions leave the same. True if an attempt was given up."""
    was_given_up = False
    while True:
        try:
            answer = await workload.client.ask(
                workload.random.choice(workload.stage.cluster.endpoints), request, Message
            )
        except PeerUnreachable:
            was_given_up = True
            await workload.client.back_off()
            continue
        if set(_results(answer)) <= {ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND}:
            return was_given_up
        # The change may still be made after some of these errors, such as a time-out.
        was_given_up = True
        await workload.client.back_off()


def _results(answer: Message) -> list[ErrorCode]:
    rows: list[Any]
    if isinstance(answer, DeleteAclsResponse):
        rows = answer.filter_results
    else:
        assert isinstance(answer, CreateAclsResponse | AlterUserScramCredentialsResponse)
        rows = answer.results
    return [ErrorCode(row.error_code) for row in rows]


def _entry(user: str, kind: ResourceType, name: str, operation: Operation, permission: Permission) -> AclEntry:
    return AclEntry(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, permission)


def _creation(entry: AclEntry) -> AclCreation:
    return AclCreation(
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        resource_pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def _filter(entry: AclEntry) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=entry.resource_type,
        resource_name_filter=entry.resource_name,
        pattern_type_filter=entry.pattern_type,
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def _has_records(answer: FetchResponse) -> bool:
    return any(partition.records for topic in answer.responses for partition in topic.partitions)
