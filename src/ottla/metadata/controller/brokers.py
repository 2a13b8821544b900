"""Decisions about brokers: registration, heartbeats, fencing, controlled shutdown, removal.

A broker registers with an incarnation id that is new in every process. Its epoch is the offset of the registration, so
epochs only grow. A broker starts fenced: clients are not sent to it. The first heartbeat that shows that it has
replayed its own registration unfences it. A broker that is silent for `broker.session.timeout.ms` is fenced again, but
stays registered; only an administrator removes it (KIP-631). Controlled shutdown first moves leadership away. The
broker may stop when the other brokers have replayed that.

The partitions of the broker change with it, in portions if they are many (`sweeps`): a decision that has not reached
the last one is taken again in a later turn of the loop, and continues where the last portion ended.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.controller.partitions import broker_has_leaderships, check_broker_epoch
from ottla.metadata.controller.sweeps import BEGINNING, Place, Portion, changes_of_leaving, changes_of_returning
from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.metadata.versions import DIRECTORIES_LEVEL, METADATA_VERSION
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

__all__ = [
    "BrokerState",
    "CORDONED_DIRECTORIES_LEVEL",
    "decide_broker_heartbeat",
    "decide_fence_silent_brokers",
    "decide_register_broker",
    "decide_unregister_broker",
    "next_broker_state",
    "silent_brokers",
]

# From 4.3-IV0 on, brokers report which of their directories are cordoned: they take no new replicas (KIP-1066).
CORDONED_DIRECTORIES_LEVEL = 30
_FENCE, _UNFENCE, _SHUTTING_DOWN = 1, -1, 1
# Ids below this one mean "unassigned", "lost" and the like. No directory has such an id.
_RESERVED_IDS_END = 100


class BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def decide_register_broker(
    request: BrokerRegistrationRequest, context: DecisionContext, start: Place = BEGINNING
) -> Decision[BrokerRegistrationResponse]:
    image = context.image
    existing = image.brokers.get(request.broker_id)
    same_incarnation = existing is not None and existing.incarnation_id == request.incarnation_id
    _check_registration(request, context, existing, same_incarnation=same_incarnation)
    records: list[Any] = []
    if existing is not None:
        records, place = _end_of_former_process(request, existing, context, start)
        if place is not None:
            return Decision(
                records, BrokerRegistrationResponse(), later=partial(decide_register_broker, request, start=place)
            )
    epoch = existing.broker_epoch if same_incarnation and existing is not None else context.next_offset
    records.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in request.features
            ],
            rack=request.rack,
            fenced=existing.fenced if same_incarnation and existing is not None else True,
            in_controlled_shutdown=same_incarnation and existing is not None and existing.in_controlled_shutdown,
            log_dirs=list(request.log_dirs) if image.features.metadata_version >= DIRECTORIES_LEVEL else [],
        )
    )
    if not same_incarnation:
        # The session of the broker's previous process is over.
        context.liveness.forget(request.broker_id)
    context.liveness.heard(request.broker_id, now_ms=context.steady_ms)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


def _end_of_former_process(
    request: BrokerRegistrationRequest, existing: BrokerImage, context: DecisionContext, start: Place
) -> Portion:
    """Partition changes for the replicas of the broker's previous process."""
    broker_id = request.broker_id
    is_new = existing.incarnation_id != request.incarnation_id
    if is_new and request.previous_broker_epoch != existing.broker_epoch:
        # Only a clean shutdown stores the epoch, and the stored epoch is not the last one: the shutdown was unclean
        # (KIP-966).
        return changes_of_leaving(context, broker_id, stopped_uncleanly=True, start=start)
    records: list[Any] = []
    missing = set(existing.directories) - set(request.log_dirs)
    if missing:
        # The broker stopped cleanly and came back without some of its directories.
        lost = changes_of_leaving(context, broker_id, stopped_uncleanly=True, directories=missing)
        if lost.place is not None:
            return lost._replace(place=BEGINNING)
        records += lost.records
    if is_new and not existing.fenced:
        # The broker has neither left nor been fenced. Its new process is fenced, so it must not lead.
        changed = {(record.topic_id, record.partition_id) for record in records}
        leaving = changes_of_leaving(context, broker_id, start=start)
        records += [record for record in leaving.records if (record.topic_id, record.partition_id) not in changed]
        return Portion(records, leaving.place)
    return Portion(records, None)


def decide_broker_heartbeat(
    request: BrokerHeartbeatRequest,
    context: DecisionContext,
    start: Place = BEGINNING,
    *,
    directories_are_known: bool = False,
) -> Decision[BrokerHeartbeatResponse]:
    broker = check_broker_epoch(context.image, request.broker_id, request.broker_epoch)
    liveness = context.liveness
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    if not broker.fenced and request.current_metadata_offset < liveness.fenced_offset(broker.broker_id):
        # The broker's session has ended, and it is being fenced in portions. It has not replayed the first portions
        # yet, and would continue to lead partitions that already have other leaders.
        return Decision([], BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=True))
    liveness.heard(broker.broker_id, now_ms=context.steady_ms, connection_id=context.connection_id)
    liveness.replayed(broker.broker_id, request.current_metadata_offset)
    if not directories_are_known:
        changes, place = _directory_records(broker, request, context)
        if place is not None:
            return Decision(changes, BrokerHeartbeatResponse(), later=partial(decide_broker_heartbeat, request))
        if changes:
            # The state is decided on the partitions without the failed directories: two changes of one partition that
            # do not know of each other would let a lost replica lead, or leave it eligible.
            following = partial(decide_broker_heartbeat, request, start=start, directories_are_known=True)
            return Decision(changes, BrokerHeartbeatResponse(), following=following)
    state = next_broker_state(broker, request, context)
    if state is BrokerState.UNFENCED and broker.fenced and set(broker.directories) & set(request.offline_log_dirs):
        # No online directory remains, which the registration cannot express.
        state = BrokerState.FENCED
    records, place = _state_records(broker, state, context, start)
    response = BrokerHeartbeatResponse(
        is_caught_up=caught_up,
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    if request.want_shut_down and records:
        liveness.shutdown_began(broker.broker_id, offset=context.next_offset + len(records) - 1)
    if place is not None:
        later = partial(decide_broker_heartbeat, request, start=place, directories_are_known=True)
        return Decision(records, response, later=later)
    if response.should_shut_down:
        # The process ends now. Its next registration need not wait for the end of this session.
        liveness.forget(broker.broker_id)
    return Decision(records, response)


def _state_records(broker: BrokerImage, state: BrokerState, context: DecisionContext, start: Place) -> Portion:
    """The changes that take a broker to its next state."""
    broker_id, liveness = broker.broker_id, context.liveness
    if state is BrokerState.UNFENCED and (broker.fenced or liveness.may_lead_more(broker_id)):
        portion = changes_of_returning(context, broker_id, start=start)
        liveness.leads_all(broker_id, is_certain=portion.place is None)
        return portion if not broker.fenced else _after(_registration_change(broker, fenced=_UNFENCE), portion)
    if state is BrokerState.CONTROLLED_SHUTDOWN:
        portion = changes_of_leaving(context, broker_id, start=start)
        if broker.in_controlled_shutdown:
            return portion
        return _after(_registration_change(broker, in_controlled_shutdown=_SHUTTING_DOWN), portion)
    if state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW) and not broker.fenced:
        return _fencing(broker, context, start)
    return Portion([], None)


def _after(record: Any, portion: Portion) -> Portion:
    return portion._replace(records=[record, *portion.records])


def next_broker_state(broker: BrokerImage, request: BrokerHeartbeatRequest, context: DecisionContext) -> BrokerState:
    """The state of a broker after a heartbeat: all transitions."""
    if broker.fenced:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        # With older metadata the broker would still consider itself leader of partitions that have another leader by
        # now.
        needed = max(broker.broker_epoch, context.liveness.fenced_offset(broker.broker_id))
        caught_up = request.current_metadata_offset >= needed
        return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
    if not broker.in_controlled_shutdown:
        if request.want_fence:
            return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
        if not request.want_shut_down:
            return BrokerState.UNFENCED
        if broker_has_leaderships(context.image, broker.broker_id):
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.SHUTDOWN_NOW
    if broker_has_leaderships(context.image, broker.broker_id):
        return BrokerState.CONTROLLED_SHUTDOWN
    needed = context.liveness.shutdown_offset(broker.broker_id)
    offsets = (
        context.liveness.metadata_offset(other.broker_id) for other in context.image.brokers.values() if other.active
    )
    return BrokerState.SHUTDOWN_NOW if all(offset >= needed for offset in offsets) else BrokerState.CONTROLLED_SHUTDOWN


def silent_brokers(context: DecisionContext) -> list[int]:
    """The unfenced brokers whose session has ended."""
    return [
        broker_id
        for broker_id, broker in sorted(context.image.brokers.items())
        if not broker.fenced
        and not context.liveness.has_session(
            broker_id, now_ms=context.steady_ms, session_timeout_ms=context.config.broker_session_timeout_ms
        )
    ]


def decide_fence_silent_brokers(
    context: DecisionContext, begun_with: int | None = None, start: Place = BEGINNING
) -> Decision[list[int]]:
    """Fences one broker whose session has ended. The next call fences the next broker, after these leaders have moved.

    A broker is not fenced if it sends a heartbeat between two portions and has replayed their changes.
    """
    silent = silent_brokers(context)[:1]
    if not silent:
        return Decision([], [])
    broker_id = silent[0]
    start = start if broker_id == begun_with else BEGINNING
    records, place = _fencing(context.image.brokers[broker_id], context, start)
    context.liveness.fenced(broker_id, offset=context.next_offset + len(records) - 1)
    if place is None:
        return Decision(records, silent)
    return Decision(records, [], later=partial(decide_fence_silent_brokers, begun_with=broker_id, start=place))


def _fencing(broker: BrokerImage, context: DecisionContext, start: Place) -> Portion:
    """Takes partitions from the broker. The last portion fences it."""
    portion = changes_of_leaving(context, broker.broker_id, start=start)
    if portion.place is None:
        portion.records.append(_registration_change(broker, fenced=_FENCE))
    return portion


def decide_unregister_broker(
    request: UnregisterBrokerRequest, context: DecisionContext, start: Place = BEGINNING
) -> Decision[UnregisterBrokerResponse]:
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    records, place = changes_of_leaving(context, broker.broker_id, stopped_uncleanly=True, start=start)
    if place is not None:
        return Decision(
            records, UnregisterBrokerResponse(), later=partial(decide_unregister_broker, request, start=place)
        )
    records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch))
    context.liveness.forget(broker.broker_id)
    return Decision(records, UnregisterBrokerResponse())


def _registration_change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def _directory_records(broker: BrokerImage, request: BrokerHeartbeatRequest, context: DecisionContext) -> Portion:
    """The changes of directories in a heartbeat: offline (KIP-858) and cordoned directories (KIP-1066)."""
    records: list[Any] = []
    offline = frozenset(request.offline_log_dirs)
    online = [directory for directory in broker.directories if directory not in offline]
    if len(online) < len(broker.directories):
        # Data on a failed disk cannot be trusted again.
        lost = changes_of_leaving(context, broker.broker_id, stopped_uncleanly=True, directories=offline)
        if lost.place is not None:
            return lost._replace(place=BEGINNING)
        records += lost.records
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=online
            )
        )
    cordoned = request.cordoned_log_dirs
    if (
        cordoned is not None
        and context.image.features.metadata_version >= CORDONED_DIRECTORIES_LEVEL
        and broker.cordoned_directories != tuple(cordoned)
    ):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=list(cordoned)
            )
        )
    return Portion(records, None)


def _check_registration(
    request: BrokerRegistrationRequest,
    context: DecisionContext,
    existing: BrokerImage | None,
    *,
    same_incarnation: bool,
) -> None:
    image = context.image
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id!r}, not to {image.cluster_id!r}",
        )
    if (
        existing is not None
        and not same_incarnation
        # The previous process stored its epoch as the last step of a clean stop, so it has ended. Its controlled
        # shutdown may have failed because too few controllers were left: in a cluster that stopped as a whole.
        and request.previous_broker_epoch != existing.broker_epoch
        and context.liveness.has_session(
            request.broker_id, now_ms=context.steady_ms, session_timeout_ms=context.config.broker_session_timeout_ms
        )
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"another process is registered as broker {request.broker_id}"
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers that use ZooKeeper cannot be registered")
    if image.features.metadata_version >= DIRECTORIES_LEVEL:
        _check_directories(request.broker_id, request.log_dirs, image)
    offered = {
        feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features
    }
    for name, level in image.features.finalized.items():
        lowest, highest = offered.get(name, (1, 1) if name == METADATA_VERSION else (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the cluster runs at level {level} of {name}, but broker {request.broker_id} supports "
                f"levels {lowest} to {highest}",
            )


def _check_directories(broker_id: int, directories: list[Uuid], image: MetadataImage) -> None:
    problem = None
    if not directories:
        problem = "names no log directory"
    elif len(set(directories)) < len(directories):
        problem = "names a log directory twice"
    elif any(int.from_bytes(directory.bytes, "big") < _RESERVED_IDS_END for directory in directories):
        problem = "names a directory id that is reserved"
    else:
        for other in image.brokers.values():
            shared = set(other.directories) & set(directories)
            if other.broker_id != broker_id and shared:
                problem = f"names directory {shared.pop()}, which belongs to broker {other.broker_id}"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"the registration of broker {broker_id} {problem}")
