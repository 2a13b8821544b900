"""The active controller as a broker reaches it: in the same process, or over the network.

`ControllerGateway` is all that the broker and its handlers know. The controller of this process (`Controller`) is one;
`RemoteController` is the other, for brokers whose controller is another node. A client's administrative request is
wrapped in an Envelope with the client's principal (KIP-590); what the broker asks for itself goes out as it is.

While the controller is away, requests of clients are tried again until `request.timeout.ms` is over; heartbeats and the
like are not, since whoever sends them has a rhythm of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.framing import request_parts
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.principal import DefaultPrincipalData

if TYPE_CHECKING:
    from ottla.metadata.controller import Caller, ControllerContext
    from ottla.model.ports import World
    from ottla.quorum.observer import ControllerAddresses
    from ottla.wire.message import Message
    from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
    from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from ottla.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
    from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
    from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
    from ottla.wire.messages.controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )
    from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from ottla.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from ottla.wire.peers import Endpoint, Peers

__all__ = ["ControllerGateway", "RemoteController", "decode_principal", "encode_principal"]

R = TypeVar("R")

# Each purpose has a connection of its own: a heartbeat must not wait behind a topic with ten thousand partitions.
FORWARDING, SESSION, REPLICATION = "forwarding", "session", "partitions"

RETRY_BACKOFF_SECONDS = 0.02
RETRY_BACKOFF_SECONDS_MAX = 0.1
PRINCIPAL_VERSION = 0


class ControllerGateway(Protocol):
    """What a broker asks of the active controller. Each answer fails with KafkaError or PeerUnreachable."""

    def create_topics(
        self, request: CreateTopicsRequest, context: ControllerContext | None = None
    ) -> Deferred[CreateTopicsResponse]: ...

    def delete_topics(
        self, request: DeleteTopicsRequest, context: ControllerContext | None = None
    ) -> Deferred[DeleteTopicsResponse]: ...

    def create_partitions(
        self, request: CreatePartitionsRequest, context: ControllerContext | None = None
    ) -> Deferred[CreatePartitionsResponse]: ...

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: ControllerContext | None = None
    ) -> Deferred[IncrementalAlterConfigsResponse]: ...

    def alter_configs(
        self, request: AlterConfigsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterConfigsResponse]: ...

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterClientQuotasResponse]: ...

    def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterUserScramCredentialsResponse]: ...

    def update_features(
        self, request: UpdateFeaturesRequest, context: ControllerContext | None = None
    ) -> Deferred[UpdateFeaturesResponse]: ...

    def elect_leaders(
        self, request: ElectLeadersRequest, context: ControllerContext | None = None
    ) -> Deferred[ElectLeadersResponse]: ...

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterPartitionReassignmentsResponse]: ...

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: ControllerContext | None = None
    ) -> Deferred[ListPartitionReassignmentsResponse]: ...

    def unregister_broker(
        self, request: UnregisterBrokerRequest, context: ControllerContext | None = None
    ) -> Deferred[UnregisterBrokerResponse]: ...

    # The next three are asked where this node does not lead the quorum itself.

    def describe_quorum(
        self, request: DescribeQuorumRequest, context: ControllerContext | None = None
    ) -> Deferred[DescribeQuorumResponse]: ...

    def add_raft_voter(
        self, request: AddRaftVoterRequest, context: ControllerContext | None = None
    ) -> Deferred[AddRaftVoterResponse]: ...

    def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, context: ControllerContext | None = None
    ) -> Deferred[RemoveRaftVoterResponse]: ...

    def alter_partition(self, request: AlterPartitionRequest) -> Deferred[AlterPartitionResponse]: ...

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> Deferred[AssignReplicasToDirsResponse]: ...

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Deferred[AllocateProducerIdsResponse]: ...

    def register_broker(self, request: BrokerRegistrationRequest) -> Deferred[BrokerRegistrationResponse]: ...

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Deferred[BrokerHeartbeatResponse]: ...


class RemoteController:
    """The active controller on another node."""

    def __init__(
        self,
        *,
        world: World,
        peers: Peers,
        controllers: ControllerAddresses,
        forwarding_timeout_ms: int,
        request_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """A client's request is tried for the first time, each attempt and the broker's own may take the second, and
        what keeps the session alive the third."""
        self._world = world
        self._peers = peers
        self._controllers = controllers
        self._forwarding_timeout_ms = forwarding_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._session_timeout_ms = session_timeout_ms
        controllers.on_moved.append(self._on_moved)

    def _on_moved(self, former: Endpoint) -> None:
        """Another leads: what was asked of the former may never be answered, for it may be frozen or cut off."""
        for purpose in (FORWARDING, SESSION, REPLICATION):
            self._peers.disconnect(former, purpose=purpose)

    # What clients ask.

    def create_topics(
        self, request: CreateTopicsRequest, context: ControllerContext | None = None
    ) -> Deferred[CreateTopicsResponse]:
        return self.forward(request, context)

    def delete_topics(
        self, request: DeleteTopicsRequest, context: ControllerContext | None = None
    ) -> Deferred[DeleteTopicsResponse]:
        return self.forward(request, context)

    def create_partitions(
        self, request: CreatePartitionsRequest, context: ControllerContext | None = None
    ) -> Deferred[CreatePartitionsResponse]:
        return self.forward(request, context)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: ControllerContext | None = None
    ) -> Deferred[IncrementalAlterConfigsResponse]:
        return self.forward(request, context)

    def alter_configs(
        self, request: AlterConfigsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterConfigsResponse]:
        return self.forward(request, context)

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterClientQuotasResponse]:
        return self.forward(request, context)

    def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterUserScramCredentialsResponse]:
        return self.forward(request, context)

    def update_features(
        self, request: UpdateFeaturesRequest, context: ControllerContext | None = None
    ) -> Deferred[UpdateFeaturesResponse]:
        return self.forward(request, context)

    def elect_leaders(
        self, request: ElectLeadersRequest, context: ControllerContext | None = None
    ) -> Deferred[ElectLeadersResponse]:
        return self.forward(request, context)

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterPartitionReassignmentsResponse]:
        return self.forward(request, context)

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: ControllerContext | None = None
    ) -> Deferred[ListPartitionReassignmentsResponse]:
        return self.forward(request, context)

    def unregister_broker(
        self, request: UnregisterBrokerRequest, context: ControllerContext | None = None
    ) -> Deferred[UnregisterBrokerResponse]:
        return self.forward(request, context)

    def describe_quorum(
        self, request: DescribeQuorumRequest, context: ControllerContext | None = None
    ) -> Deferred[DescribeQuorumResponse]:
        return self.forward(request, context)

    def add_raft_voter(
        self, request: AddRaftVoterRequest, context: ControllerContext | None = None
    ) -> Deferred[AddRaftVoterResponse]:
        return self.forward(request, context)

    def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, context: ControllerContext | None = None
    ) -> Deferred[RemoveRaftVoterResponse]:
        return self.forward(request, context)

    # What the broker asks.

    def alter_partition(self, request: AlterPartitionRequest) -> Deferred[AlterPartitionResponse]:
        return self._ask(request, REPLICATION, self._request_timeout_ms).then(_checked)

    def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> Deferred[AssignReplicasToDirsResponse]:
        return self._ask(request, REPLICATION, self._request_timeout_ms).then(_checked)

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Deferred[AllocateProducerIdsResponse]:
        return self._ask(request, FORWARDING, self._request_timeout_ms).then(_checked)

    def register_broker(self, request: BrokerRegistrationRequest) -> Deferred[BrokerRegistrationResponse]:
        return self._ask(request, SESSION, self._session_timeout_ms).then(_checked)

    def register_controller(self, request: ControllerRegistrationRequest) -> Deferred[ControllerRegistrationResponse]:
        return self._ask(request, SESSION, self._session_timeout_ms).then(_checked)

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Deferred[BrokerHeartbeatResponse]:
        return self._ask(request, SESSION, self._session_timeout_ms).then(_checked)

    def forward(self, request: Any, context: ControllerContext | None) -> Deferred[Any]:
        """Any request that the controller's listener serves, tried until it is answered or its time is up."""
        attempt = _Forwarded(request, None if context is None or context.caller is None else context)
        deadline = self._world.clock.monotonic() + self._forwarding_timeout_ms / 1000
        self._try(attempt, deadline)
        return attempt.deferred

    def _try(self, attempt: _Forwarded, deadline: float) -> None:
        remaining_ms = int((deadline - self._world.clock.monotonic()) * 1000)
        if remaining_ms <= 0:
            attempt.deferred.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller cannot be reached"))
            return

        def on_answer(answer: Deferred[Any]) -> None:
            if answer.error is not None or not attempt.take(answer.result()):
                self._world.scheduler.call_later(attempt.next_delay_seconds(), self._try, attempt, deadline)

        timeout_ms = min(remaining_ms, self._request_timeout_ms)
        self._ask(attempt.wrapped, FORWARDING, timeout_ms).when_done(on_answer)

    def _ask(self, request: Message, purpose: str, timeout_ms: int) -> Deferred[Any]:
        endpoint = self._controllers.current

        def on_answer(answer: Deferred[Any]) -> None:
            # Whoever is not the active controller any more is not asked again before the others were.
            if answer.error is not None:
                self._controllers.failed(endpoint)
            elif _is_not_controller(answer.result()):
                self._controllers.refused(endpoint)

        asked = self._peers.send(endpoint, request, purpose=purpose, timeout_ms=timeout_ms)
        asked.when_done(on_answer)
        return asked


class _Forwarded:
    """A request on its way to the controller, in an envelope when it is a client's."""

    __slots__ = ("_api_version", "_delay_seconds", "deferred", "request", "wrapped")

    def __init__(self, request: Message, context: ControllerContext | None) -> None:
        self.request = request
        self.deferred: Deferred[Any] = Deferred()
        self.wrapped: Message = request
        self._api_version = -1
        self._delay_seconds = RETRY_BACKOFF_SECONDS
        if context is not None:
            assert context.caller is not None
            self._api_version = context.api_version
            self.wrapped = _envelope(request, context.api_version, context.caller)

    def next_delay_seconds(self) -> float:
        """How long to wait before the next attempt: longer each time."""
        delay_seconds = self._delay_seconds
        self._delay_seconds = min(2 * delay_seconds, RETRY_BACKOFF_SECONDS_MAX)
        return delay_seconds

    def take(self, response: Any) -> bool:
        """Resolves with the answer, or says that the request has to be sent again."""
        if self._api_version < 0:
            if _is_not_controller(response):
                return False
            self.deferred.resolve(response)
            return True
        assert isinstance(response, EnvelopeResponse)
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            return False
        if response.error_code or response.response_data is None:
            # The controller refused the envelope, of which the client knows nothing.
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                code = ErrorCode.UNSUPPORTED_VERSION
            self.deferred.fail(KafkaError(code, "the controller refused to take a forwarded request"))
            return True
        spec = API_SPECS[ApiKey(self.request.API_KEY)]
        position = 5 if spec.response_header_version(self._api_version) else 4
        try:
            answer, _ = decode(spec.response_class, memoryview(response.response_data), self._api_version, position)
        except MalformedMessage as error:
            self.deferred.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer: {error}"))
            return True
        self.deferred.resolve(answer)
        return True


def encode_principal(principal_type: str, principal_name: str) -> bytes:
    data = DefaultPrincipalData(type=principal_type, name=principal_name)
    return PRINCIPAL_VERSION.to_bytes(2, "big") + encode(data, PRINCIPAL_VERSION)


def decode_principal(data: memoryview) -> DefaultPrincipalData:
    """Raises MalformedMessage."""
    if len(data) < 2 or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
        raise MalformedMessage("a principal in a form that is not known")
    principal, _ = decode(DefaultPrincipalData, data, PRINCIPAL_VERSION, 2)
    return principal


def _envelope(request: Message, api_version: int, caller: Caller) -> EnvelopeRequest:
    parts = request_parts(request.API_KEY, api_version, 0, caller.client_id, request)
    frame = b"".join(parts)  # type: ignore[arg-type]
    return EnvelopeRequest(
        # Without the size, which is the envelope's own business.
        request_data=frame[4:],
        request_principal=encode_principal(caller.principal_type, caller.principal_name),
        client_host_address=caller.address,
    )


def _is_not_controller(response: Any) -> bool:
    """Whether the one that was asked is not the active controller; some answers say so for each of their parts."""
    if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    parts = getattr(response, "topics", None) or getattr(response, "results", None) or ()
    return any(getattr(part, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER for part in parts)


def _checked(response: Any) -> Any:
    """The response, or raises the error it carries as a whole."""
    if response.error_code:
        code = ErrorCode.told(response.error_code)
        raise KafkaError(code, f"the controller answered {code.name}: {code.message}")
    return response
