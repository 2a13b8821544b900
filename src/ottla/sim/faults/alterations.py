"""AlterPartition requests and answers that arrive late, while the follower in question lags or restarts.

A leader that requests a larger in-sync set does not know for some time which of two sets is valid, and the new replica
may restart in the meantime. Both windows are a few milliseconds long without this fault.
"""

from __future__ import annotations

from ottla.sim.faults.fault import Fault
from ottla.sim.faults.processes import may_lose_power
from ottla.sim.network import Detour
from ottla.sim.node import SimNode
from ottla.wire.api import ApiKey
from ottla.wire.message import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest

__all__ = ["LateAlterations"]

RESTART_US = 200_000


class LateAlterations(Fault):
    """Kills a follower. Delays either the request that adds it to the in-sync set, or the answer and the metadata.

    Meanwhile the follower cannot fetch from that leader, and may lose power.
    """

    name = "late alterations"

    def strike(self) -> None:
        pair = self._some_pair()
        if pair is None or not self.may_end_uncleanly(pair[1]):
            return
        leader, follower = pair
        is_request_late = self.random.random() < 0.5
        # Longer than a follower counts as caught up: after that only the pending set holds the high watermark.
        lag_seconds = int(self.cluster.layout.settings.get("replica.lag.time.max.ms", "30000")) / 1000
        delay_seconds = self.random.uniform(1.2, 2.5) * min(lag_seconds, 4.0)
        detours = self.cluster.network.detours
        alterations, metadata = (leader.host, ApiKey.ALTER_PARTITION), (leader.host, "metadata")
        if alterations in detours:
            return
        detours[alterations] = Detour(
            request_seconds=delay_seconds if is_request_late else 0.0,
            answer_seconds=0.0 if is_request_late else delay_seconds,
            on_sent=lambda request: self._on_sent(request, leader, follower, delay_seconds),
        )
        if not is_request_late:
            # No delay before the request is sent, because the leader first has to notice that the follower is back.
            detours[metadata] = Detour()
        self.kernel.trace("late alterations", f"{leader.node_id} about {follower.node_id}")
        follower.kill()
        self.kernel.after(RESTART_US, self.cluster.restart, follower)
        for key in (alterations, metadata):
            self.undo_later((2 * delay_seconds + 3.0, 3 * delay_seconds + 4.0), detours.pop, key, None)

    def _some_pair(self) -> tuple[SimNode, SimNode] | None:
        """A leader and a follower of a partition, not the active controller, which sends itself no requests."""
        brokers = {node.node_id: node.broker for node in self.cluster.nodes.values() if node.is_serving}
        images = [broker.metadata.image for broker in brokers.values() if broker is not None]
        passive = {
            node_id
            for node_id, broker in brokers.items()
            if broker is not None and (broker.quorum is None or broker.quorum.leading_epoch is None)
        }
        if not images:
            return None
        image = max(images, key=lambda image: image.offset)
        pairs = {
            (row.leader, replica)
            for topic in image.topics.by_id.values()
            for row in topic.partitions.values()
            for replica in row.replicas
            if replica != row.leader and row.leader in passive and replica in passive
        }
        if not pairs:
            return None
        leader_id, follower_id = self.random.choice(sorted(pairs))
        return self.cluster.nodes[leader_id], self.cluster.nodes[follower_id]

    def _on_sent(self, request: Message, leader: SimNode, follower: SimNode, delay_seconds: float) -> None:
        assert isinstance(request, AlterPartitionRequest)
        detours = self.cluster.network.detours
        detour = detours.get((leader.host, ApiKey.ALTER_PARTITION))
        if detour is None or not _adds(request, follower.node_id, leader):
            return
        detour.on_sent = None
        metadata = detours.get((leader.host, "metadata"))
        if metadata is not None:
            # Otherwise the metadata would arrive before the delayed answer.
            metadata.answer_seconds = delay_seconds
        network = self.cluster.network
        for source, target in ((leader, follower), (follower, leader)):
            network.block(source.host, target.host)
            self.undo_later((delay_seconds + 0.5, delay_seconds + 3.0), network.unblock, source.host, target.host)
        self.kernel.counts["late alteration"] += 1
        if self.random.random() < 0.7 and may_lose_power(self.cluster, follower):
            self.cluster.damaged[follower.node_id] = follower.incarnation
            follower.lose_power()
            self.kernel.after(RESTART_US, self.cluster.restart, follower)


def _adds(request: AlterPartitionRequest, follower_id: int, leader: SimNode) -> bool:
    """Whether the request adds the follower to the in-sync set of a partition that has records."""
    assert leader.broker is not None
    led = {(partition.topic_id, partition.index): partition for partition in leader.broker.replicas.partitions()}
    for topic in request.topics:
        for wanted in topic.partitions:
            partition = led.get((topic.topic_id, wanted.partition_index))
            if partition is None or partition.leader_state is None or not partition.log.log_end_offset:
                continue
            members = {member.broker_id for member in wanted.new_isr_with_epochs}
            if follower_id in members - partition.leader_state.isr:
                return True
    return False
