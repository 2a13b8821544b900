"""The requests a controller answers: one method each, from wire message to wire message.

A method only names the decision; what is decided is in the modules by kind of record, how it is made durable in
`controller`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.metadata.controller import (
    brokers,
    cluster,
    configs,
    directories,
    elections,
    features,
    partitions,
    producer_ids,
    reassignments,
    topics,
)
from ottla.metadata.controller.decision import Decision, DecisionContext, Liveness
from ottla.model.deferred import Deferred
from ottla.wire.messages.metadata_records import NoOpRecord

if TYPE_CHECKING:
    from ottla.metadata.controller.controller import ControllerContext
    from ottla.metadata.image import MetadataImage
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
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from ottla.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

__all__ = ["AdminOperations"]

R = TypeVar("R")

UNCLEAN_ELECTION_KEY = "unclean.leader.election.enable"


class AdminOperations:
    """Mixed into `Controller`, which brings `submit`."""

    liveness: Liveness

    def submit(
        self, decide: Callable[[DecisionContext], Decision[R]], context: ControllerContext | None = None
    ) -> Deferred[R]:
        raise NotImplementedError

    @property
    def uncommitted_image(self) -> MetadataImage:
        raise NotImplementedError

    def create_topics(
        self, request: CreateTopicsRequest, context: ControllerContext | None = None
    ) -> Deferred[CreateTopicsResponse]:
        return self.submit(lambda given: topics.decide_create_topics(request, given), context)

    def delete_topics(
        self, request: DeleteTopicsRequest, context: ControllerContext | None = None
    ) -> Deferred[DeleteTopicsResponse]:
        return self.submit(lambda given: topics.decide_delete_topics(request, given), context)

    def create_partitions(
        self, request: CreatePartitionsRequest, context: ControllerContext | None = None
    ) -> Deferred[CreatePartitionsResponse]:
        return self.submit(lambda given: topics.decide_create_partitions(request, given), context)

    def alter_partition(
        self, request: AlterPartitionRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterPartitionResponse]:
        return self.submit(lambda given: partitions.decide_alter_partition(request, given), context)

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, context: ControllerContext | None = None
    ) -> Deferred[AssignReplicasToDirsResponse]:
        return self.submit(lambda given: directories.decide_assign_replicas_to_dirs(request, given), context)

    def elect_leaders(
        self, request: ElectLeadersRequest, context: ControllerContext | None = None
    ) -> Deferred[ElectLeadersResponse]:
        return self.submit(lambda given: elections.decide_elect_leaders(request, given), context)

    def balance_leaders(self) -> Deferred[bool]:
        """To be called every `leader.imbalance.check.interval.seconds`; true when it should be called again at once."""
        return self.submit(elections.decide_balance_leaders)

    def elect_unclean_leaders(self) -> Deferred[bool]:
        """To be called now and then, and when unclean elections are allowed; true as above."""
        return self.submit(elections.decide_unclean_elections)

    def write_nothing(self) -> Deferred[bool]:
        """To be called every `metadata.max.idle.interval.ms` (KIP-835): an empty record, which changes nothing."""
        return self.submit(lambda _: Decision([NoOpRecord()], False))

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterPartitionReassignmentsResponse]:
        return self.submit(lambda given: reassignments.decide_alter_partition_reassignments(request, given), context)

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: ControllerContext | None = None
    ) -> Deferred[ListPartitionReassignmentsResponse]:
        return self.submit(lambda given: reassignments.decide_list_partition_reassignments(request, given), context)

    def register_broker(
        self, request: BrokerRegistrationRequest, context: ControllerContext | None = None
    ) -> Deferred[BrokerRegistrationResponse]:
        def decide(given: DecisionContext) -> Decision[BrokerRegistrationResponse]:
            decision = brokers.decide_register_broker(request, given)
            known = given.image.brokers.get(request.broker_id)
            if known is None or known.incarnation_id != request.incarnation_id:
                # The session of the process before this one is over.
                self.liveness.forget(request.broker_id)
            self.liveness.heard(request.broker_id, now_ms=given.steady_ms)
            return decision

        return self.submit(decide, context)

    def heartbeat(
        self, request: BrokerHeartbeatRequest, context: ControllerContext | None = None, *, connection_id: str = ""
    ) -> Deferred[BrokerHeartbeatResponse]:
        """`connection_id` is what it came on; see `Liveness.lost`."""

        def decide(given: DecisionContext) -> Decision[BrokerHeartbeatResponse]:
            partitions.check_broker_epoch(given.image, request.broker_id, request.broker_epoch)
            # Heard of is heard of, whatever is decided: contact is no state of the log.
            self.liveness.heard(request.broker_id, now_ms=given.steady_ms, connection_id=connection_id)
            self.liveness.metadata_offsets[request.broker_id] = request.current_metadata_offset
            decision = brokers.decide_broker_heartbeat(request, given)
            if request.want_shut_down and decision.records:
                self.liveness.shutdown_offsets[request.broker_id] = given.next_offset + len(decision.records) - 1
            if decision.response.should_shut_down:
                # It ends now: its next start need not wait until this session has run out.
                self.liveness.forget(request.broker_id)
            return decision

        return self.submit(decide, context)

    def fence_silent_brokers(self, *, held_up_ms: int = 0) -> Deferred[list[int]]:
        """To be called now and then; fences at most one broker per call, so that the cost of a call is bounded.

        `held_up_ms` is by how much the call comes too late: so long this node could hear nobody.
        """
        if held_up_ms > 0:
            self.liveness.excuse(held_up_ms)

        def decide(given: DecisionContext) -> Decision[list[int]]:
            decision = brokers.decide_fence_silent_brokers(given)
            for broker_id in decision.response:
                self.liveness.fenced_offsets[broker_id] = given.next_offset + len(decision.records) - 1
            return decision

        return self.submit(decide)

    def unregister_broker(
        self, request: UnregisterBrokerRequest, context: ControllerContext | None = None
    ) -> Deferred[UnregisterBrokerResponse]:
        def decide(given: DecisionContext) -> Decision[UnregisterBrokerResponse]:
            decision = brokers.decide_unregister_broker(request, given)
            self.liveness.forget(request.broker_id)
            return decision

        return self.submit(decide, context)

    def register_controller(
        self, request: ControllerRegistrationRequest, context: ControllerContext | None = None
    ) -> Deferred[ControllerRegistrationResponse]:
        return self.submit(lambda given: cluster.decide_register_controller(request, given), context)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: ControllerContext | None = None
    ) -> Deferred[IncrementalAlterConfigsResponse]:
        altered = self.submit(lambda given: configs.decide_incremental_alter_configs(request, given), context)
        self._after_configs(request)
        return altered

    def alter_configs(
        self, request: AlterConfigsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterConfigsResponse]:
        altered = self.submit(lambda given: configs.decide_alter_configs(request, given), context)
        self._after_configs(request)
        return altered

    def _after_configs(self, request: IncrementalAlterConfigsRequest | AlterConfigsRequest) -> None:
        """Where an unclean election has become possible, those who wait for it need not wait for the timer."""
        named = {config.name for resource in request.resources for config in resource.configs}
        if UNCLEAN_ELECTION_KEY in named and not request.validate_only:
            self.elect_unclean_leaders()

    def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterClientQuotasResponse]:
        # Imported when it is needed: most clusters have no quotas.
        from ottla.metadata.controller import client_quotas

        return self.submit(lambda given: client_quotas.decide_alter_client_quotas(request, given), context)

    def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, context: ControllerContext | None = None
    ) -> Deferred[AlterUserScramCredentialsResponse]:
        # Imported when it is needed: most clusters have no credentials, and none changes them often.
        from ottla.metadata.controller import scram

        return self.submit(lambda given: scram.decide_alter_user_scram_credentials(request, given), context)

    def update_features(
        self, request: UpdateFeaturesRequest, context: ControllerContext | None = None
    ) -> Deferred[UpdateFeaturesResponse]:
        return self.submit(lambda given: features.decide_update_features(request, given), context)

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, context: ControllerContext | None = None
    ) -> Deferred[AllocateProducerIdsResponse]:
        return self.submit(lambda given: producer_ids.decide_allocate_producer_ids(request, given), context)
