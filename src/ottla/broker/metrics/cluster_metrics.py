"""Metrics of the controller, the metadata and the quorum.

The active controller reports the metrics of the whole cluster. All other nodes report 0 for them, so that the sum over
all nodes is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, Metric, Row
from ottla.quorum.description import describe_quorum
from ottla.quorum.roles import Role

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape
    from ottla.metadata.controller import Controller
    from ottla.quorum.raft_node import RaftNode

__all__ = ["CLUSTER_METRICS"]


def _if_active(number: Callable[[Scrape], int]) -> Callable[[Scrape], int]:
    return lambda scrape: number(scrape) if scrape.is_active_controller else 0


def _controller(number: Callable[[Controller], int]) -> Callable[[Scrape], int | None]:
    def read(scrape: Scrape) -> int | None:
        controller = scrape.broker.local_controller
        return None if controller is None else number(controller)

    return read


def _brokers(scrape: Scrape, *, fenced: bool) -> int:
    return sum(broker.fenced is fenced for broker in scrape.broker.metadata.image.brokers.values())


def _applied_lag_ms(scrape: Scrape) -> int:
    timestamp_ms = scrape.broker.metadata.image.timestamp_ms
    return max(scrape.broker.world.clock.now_ms() - timestamp_ms, 0) if timestamp_ms else 0


def _quorum(number: Callable[[RaftNode], int]) -> Callable[[Scrape], int | None]:
    def read(scrape: Scrape) -> int | None:
        return None if scrape.broker.quorum is None else number(scrape.broker.quorum)

    return read


def _role(scrape: Scrape) -> Iterator[Row]:
    quorum = scrape.broker.quorum
    if quorum is None:
        return iter(())
    return iter([((role.value,), int(quorum.machine.role is role)) for role in Role])


def _voter_lags(scrape: Scrape) -> Iterator[Row]:
    described = None if scrape.broker.quorum is None else describe_quorum(scrape.broker.quorum)
    if described is None or scrape.broker.quorum is None:
        return
    end_offset = scrape.broker.quorum.log.end_offset
    for kind, replicas in (("voter", described.voters), ("observer", described.observers)):
        for replica in replicas:
            yield (replica.replica_id, kind), max(end_offset - max(replica.log_end_offset, 0), 0)


def _controller_metric(name: str) -> str:
    return f"kafka.controller:type=KafkaController,name={name}"


def _raft_metric(name: str) -> str:
    return f"kafka.server:type=raft-metrics; {name}"


# fmt: off
CLUSTER_METRICS: Final = (
    Metric("kafka_controller_kafkacontroller_activecontrollercount", GAUGE, (),
           "1 on the node with the active controller, 0 elsewhere; the sum over all nodes must be 1.",
           _controller_metric("ActiveControllerCount"), lambda scrape: int(scrape.is_active_controller)),
    Metric("kafka_controller_kafkacontroller_activebrokercount", GAUGE, (),
           "Brokers that are registered and not fenced.",
           _controller_metric("ActiveBrokerCount"), _if_active(lambda scrape: _brokers(scrape, fenced=False))),
    Metric("kafka_controller_kafkacontroller_fencedbrokercount", GAUGE, (),
           "Brokers that are registered and fenced: stopped, unreachable, or still starting.",
           _controller_metric("FencedBrokerCount"), _if_active(lambda scrape: _brokers(scrape, fenced=True))),
    Metric("kafka_controller_kafkacontroller_globaltopiccount", GAUGE, (),
           "Topics of the cluster.",
           _controller_metric("GlobalTopicCount"), _if_active(lambda scrape: scrape.cluster.topics)),
    Metric("kafka_controller_kafkacontroller_globalpartitioncount", GAUGE, (),
           "Partitions of the cluster.",
           _controller_metric("GlobalPartitionCount"), _if_active(lambda scrape: scrape.cluster.partitions)),
    Metric("kafka_controller_kafkacontroller_offlinepartitionscount", GAUGE, (),
           "Partitions of the cluster without a leader.",
           _controller_metric("OfflinePartitionsCount"), _if_active(lambda scrape: scrape.cluster.without_leader)),
    Metric("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", GAUGE, (),
           "Partitions of the cluster whose leader is not the preferred replica.",
           _controller_metric("PreferredReplicaImbalanceCount"),
           _if_active(lambda scrape: scrape.cluster.not_on_preferred)),
    Metric("kafka_controller_kafkacontroller_metadataerrorcount", GAUGE, (),
           "1 if the controller's metadata log has failed, else 0.",
           _controller_metric("MetadataErrorCount"),
           _controller(lambda controller: int(controller.has_failed))),
    Metric("kafka_controller_kafkacontroller_lastappliedrecordoffset", GAUGE, (),
           "Offset of the last metadata record that this controller has replayed.",
           _controller_metric("LastAppliedRecordOffset"), _controller(lambda controller: controller.image.offset)),
    Metric("kafka_controller_kafkacontroller_lastappliedrecordtimestamp", GAUGE, (),
           "Time of that record, in milliseconds.",
           _controller_metric("LastAppliedRecordTimestamp"),
           _controller(lambda controller: controller.image.timestamp_ms)),
    Metric("kafka_controller_kafkacontroller_lastcommittedrecordoffset", GAUGE, (),
           "Offset of the last committed metadata record that this controller knows of.",
           _controller_metric("LastCommittedRecordOffset"), _quorum(lambda quorum: quorum.log.committed_offset - 1)),
    Metric("ottla_controller_uncommitted_decisions", GAUGE, (),
           "Uncommitted decisions of the active controller (its event queue).",
           "", _controller(lambda controller: controller.uncommitted_decisions)),
    Metric("ottla_controller_snapshots_total", COUNTER, (),
           "Metadata snapshots that this node has written.", "",
           _controller(lambda controller: controller.snapshots.written)),
    Metric("kafka_server_brokermetadatametrics_last_applied_record_offset", GAUGE, (),
           "Offset of the last metadata record that this node has applied.",
           "kafka.server:type=broker-metadata-metrics; last-applied-record-offset",
           lambda scrape: scrape.broker.metadata.image.offset),
    Metric("kafka_server_brokermetadatametrics_last_applied_record_timestamp", GAUGE, (),
           "Time of that record, in milliseconds.",
           "kafka.server:type=broker-metadata-metrics; last-applied-record-timestamp",
           lambda scrape: scrape.broker.metadata.image.timestamp_ms),
    Metric("kafka_server_brokermetadatametrics_last_applied_record_lag_ms", GAUGE, (),
           "Milliseconds since that time. It grows while the metadata does not change: there are no no-op records.",
           "kafka.server:type=broker-metadata-metrics; last-applied-record-lag-ms", _applied_lag_ms),
    Metric("kafka_server_brokermetadatametrics_metadata_apply_error_count", GAUGE, (),
           "Errors while this node applied metadata; the log has the component and the cause.",
           "kafka.server:type=broker-metadata-metrics; metadata-apply-error-count",
           lambda scrape: scrape.broker.metadata.failures),
    Metric("kafka_server_raftmetrics_current_state", GAUGE, ("state",),
           "1 for the current role of this node in the quorum.", _raft_metric("current-state"), _role),
    Metric("kafka_server_raftmetrics_current_leader", GAUGE, (),
           "Node id of the quorum leader that this node knows of; -1 for none.",
           _raft_metric("current-leader"), _quorum(lambda quorum: quorum.news.leader_id)),
    Metric("kafka_server_raftmetrics_current_epoch", GAUGE, (),
           "The quorum's epoch.", _raft_metric("current-epoch"), _quorum(lambda quorum: quorum.machine.epoch)),
    Metric("kafka_server_raftmetrics_high_watermark", GAUGE, (),
           "High watermark of the metadata log.",
           _raft_metric("high-watermark"), _quorum(lambda quorum: quorum.log.committed_offset)),
    Metric("kafka_server_raftmetrics_log_end_offset", GAUGE, (),
           "End offset of the metadata log on this node.",
           _raft_metric("log-end-offset"), _quorum(lambda quorum: quorum.log.end_offset)),
    Metric("kafka_server_raftmetrics_number_of_voters", GAUGE, (),
           "Voters of the quorum.", _raft_metric("number-of-voters"),
           _quorum(lambda quorum: len(quorum.log.voter_ids))),
    Metric("ottla_quorum_lag", GAUGE, ("replica", "kind"),
           "Records of the metadata log that a voter or observer has not fetched yet; reported by the leader.",
           "", _voter_lags),
)
# fmt: on
