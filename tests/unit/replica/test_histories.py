"""Random histories: brokers are cut off, crash, stop and come back while records are produced.

Messages and metadata take their time, and several things may go wrong at once; only disks lose records one at a time.
Whatever happens:
- a record that was acknowledged with acks=all is at its offset in the end, on every replica;
- no offset is acknowledged twice with different records;
- what two replicas both call committed is equal;
- when everything is well again, all replicas are in sync and equal to the last byte.

A failure names its seed; `history(seed)` repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from ottla.model.deferred import Deferred
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.produce import PartitionProduceResponse
from tests.support.replica_cluster import ReplicaCluster, ReplicaNode

SEEDS = int(os.environ.get("OTTLA_HISTORIES", "12"))
STEPS = 120


class History:
    def __init__(self, cluster: ReplicaCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = Random(seed)
        self.acknowledged: dict[int, str] = {}
        self.story: list[str] = []
        self._number = 0
        self._cut_off: set[int] = set()
        # The brokers that are down, and whether they crashed.
        self._down: dict[int, bool] = {}
        cluster.commit(r.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=seed % 2))
        cluster.create_topic(replicas=(1, 2, 3), min_insync_replicas="2")
        cluster.run(1_000)
        if seed % 4:
            slow = self.random.choice((5, 50, 500))
            cluster.delay_ms = lambda: self.random.choice((0, 1, 1, 2, slow))

    def run(self) -> None:
        for _ in range(STEPS):
            step = self.random.choice(self._possible_steps())
            self.story.append(step.__name__)
            step()
            self.cluster.run(self.random.choice((0, 0, 1, 20, 600)))
            self.check_committed()
        self.heal()
        self.check_all()

    def _possible_steps(self) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = [self.produce] * 12 + [self.move_leader, self.wait_long]
        if self._cut_off:
            steps += [self.reconnect, self.reconnect, self.lose_session]
        if self._down:
            steps += [self.restart] * 2
        if self._well():
            steps.append(self.cut_off)
            if not self._down:
                steps.append(self.stop)
            if not self._down and not self._cut_off and set(self.cluster.truth().isr) == {1, 2, 3}:
                steps += [self.crash, self.crash_and_lose_the_tail]
        return steps

    def _well(self) -> list[int]:
        return [node_id for node_id in (1, 2, 3) if node_id not in self._cut_off and node_id not in self._down]

    # What happens.

    def produce(self) -> None:
        """Produces to a broker that considers itself the leader."""
        leaders = [node for node in self._running() if node.partition().is_leader]
        if not leaders:
            return
        leader = self.random.choice(leaders)
        texts = []
        for _ in range(self.random.randint(1, 3)):
            self._number += 1
            texts.append(f"record {self._number}")
        answer = leader.produce(*texts, acks=-1, timeout_ms=3_000)
        if isinstance(answer, Deferred):
            answer.when_done(lambda done: self._on_answer(texts, done.result()))
        else:
            self._on_answer(texts, answer)

    def _on_answer(self, texts: list[str], answer: PartitionProduceResponse) -> None:
        if answer.error_code == 0:
            for number, text in enumerate(texts):
                offset = answer.base_offset + number
                assert self.acknowledged.setdefault(offset, text) == text, f"offset {offset} was acknowledged twice"

    def move_leader(self) -> None:
        truth = self.cluster.truth()
        candidates = [replica for replica in truth.isr if self.cluster.image.brokers[replica].active]
        if candidates and truth.leader >= 0:
            self.cluster.elect(self.random.choice(candidates))

    def wait_long(self) -> None:
        """Long enough for laggards to leave the in-sync set."""
        self.cluster.run(50_000)

    def _pick(self) -> int:
        node_id = self.random.choice(self._well())
        self.story.append(str(node_id))
        return node_id

    def cut_off(self) -> None:
        node_id = self._pick()
        self._cut_off.add(node_id)
        self.cluster.cut_off(node_id)
        self.cluster[node_id].holds_metadata = True

    def lose_session(self) -> None:
        node_id = self.random.choice(sorted(self._cut_off))
        if not self.cluster.image.brokers[node_id].fenced:
            self.cluster.lose_broker(node_id)

    def reconnect(self) -> None:
        node_id = self.random.choice(sorted(self._cut_off))
        self._cut_off.remove(node_id)
        self.cluster.cut = {link for link in self.cluster.cut if node_id not in link}
        for other in self._cut_off:
            self.cluster.cut |= {(node_id, other), (other, node_id)}
        self.cluster[node_id].release_metadata()
        if self.cluster.image.brokers[node_id].fenced:
            self.cluster.regain_broker(node_id)

    def crash(self, *, loses_tail: bool = False) -> None:
        node_id = self._pick()
        self._down[node_id] = True
        node = self.cluster[node_id]
        segment = node.log().segments.active
        path, size = segment.file.path, segment.size
        node.crash()
        if loses_tail:
            file = self.cluster.virtual.files.open(path, create=False)
            file.truncate(self.random.randint(0, size))
            file.close()
        self.cluster.lose_broker(node_id)

    def crash_and_lose_the_tail(self) -> None:
        """The machine went down with it, and the page cache with the machine."""
        self.crash(loses_tail=True)

    def stop(self) -> None:
        node_id = self._pick()
        self._down[node_id] = False
        self.cluster[node_id].stop()
        self.cluster.lose_broker(node_id)

    def restart(self) -> None:
        node_id, crashed = self._down.popitem()
        if crashed:
            self.cluster.note_unclean_stop(node_id)
        self.cluster[node_id].start(fenced=True)
        self.cluster.regain_broker(node_id)

    def heal(self) -> None:
        while self._cut_off:
            self.reconnect()
        while self._down:
            self.restart()
        self.cluster.run(120_000)

    # What holds.

    def _running(self) -> list[ReplicaNode]:
        return [node for node in self.cluster.nodes.values() if node.runs]

    def check_committed(self) -> None:
        running = self._running()
        committed = {node.node_id: (node.log().high_watermark, records_of(node)) for node in running}
        for node in running:
            for other in running:
                end = min(committed[node.node_id][0], committed[other.node_id][0])
                assert _below(committed[node.node_id][1], end) == _below(committed[other.node_id][1], end), self.story

    def check_all(self) -> None:
        cluster = self.cluster
        assert set(cluster.truth().isr) == {1, 2, 3}, self.story
        first = cluster[1].bytes()
        assert all(node.bytes() == first for node in cluster.nodes.values()), self.story
        records = records_of(cluster[1])
        lost = {offset: text for offset, text in self.acknowledged.items() if records.get(offset) != text}
        assert not lost, self.story
        assert len({node.log().high_watermark for node in cluster.nodes.values()}) == 1, self.story


def records_of(node: ReplicaNode) -> dict[int, str]:
    return {
        record.offset: str(record.value or b"", "utf-8")
        for batch in iterate_batches(memoryview(bytearray(node.bytes())))
        for record in iterate_records(batch)
    }


def _below(records: dict[int, str], end: int) -> dict[int, str]:
    return {offset: text for offset, text in records.items() if offset < end}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_history_loses_an_acknowledged_record(make: Callable[..., ReplicaCluster], seed: int) -> None:
    history = History(make(nodes=(1, 2, 3)), seed)
    history.run()
    assert history.acknowledged, "nothing was acknowledged, so nothing is proved"
