"""The parts around the planner: what-if, the journal, the judge of latencies, anomalies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.balance.anomalies import AnomalyDetector
from ottla.balance.demotion import make_demotion
from ottla.balance.guard import LatencyJudge
from ottla.balance.journal import Journal
from ottla.balance.observe import with_brokers, with_partitions
from ottla.balance.planner import make_plan
from ottla.balance.state import ClusterState
from ottla.balance.steps import make_steps
from ottla.model.ids import TopicPartition, Uuid
from tests.unit.balance.clusters import random_cluster
from tests.unit.balance.test_planner import simple


def test_what_if_a_broker_joins_leaves_or_dies() -> None:
    state = simple(*[(1, 2)] * 10, brokers=2)
    assert with_brokers(state, added=[(3, "r")]).brokers[3].rack == "r"
    assert not with_brokers(state, drained=[1]).brokers[1].takes_replicas
    assert not with_brokers(state, dead=[2]).brokers[2].is_alive
    with pytest.raises(ValueError, match="There is no broker 9; there are 1, 2"):
        with_brokers(state, drained=[9])
    with pytest.raises(ValueError, match="Broker 1 is in the cluster already"):
        with_brokers(state, added=[(1, None)])


def test_what_if_a_topic_has_more_partitions() -> None:
    state = with_partitions(simple((1, 2), (2, 3)), "t", 6)
    assert len(state.partitions) == 6
    assert all(len(partition.replicas) == 2 for partition in state.partitions.values())
    with pytest.raises(ValueError, match="adds none"):
        with_partitions(state, "t", 6)
    with pytest.raises(ValueError, match="There is no topic 'x'"):
        with_partitions(state, "x", 6)


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = random_cluster(3)
    steps = make_steps(state, make_plan(state).movements).steps
    topic_ids = {"t": Uuid(b"t" * 16)}
    journal = Journal(tmp_path / "journal.json", "cluster", steps, 5, drained=(3,), topic_ids=topic_ids)
    journal.write()
    again = Journal.read(journal.path)
    assert (again.steps, again.cluster_id, again.throttle, again.drained) == (journal.steps, "cluster", 5, (3,))
    assert (again.topic_ids, again.is_repair) == (topic_ids, False)
    # Older journals have no topic ids.
    content = json.loads(journal.path.read_text())
    del content["topics"]
    journal.path.write_text(json.dumps(content))
    assert (Journal.read(journal.path).steps, Journal.read(journal.path).topic_ids) == (journal.steps, {})
    journal.path.write_text("{}")
    with pytest.raises(ValueError, match="is no journal"):
        Journal.read(journal.path)
    journal.remove()
    with pytest.raises(ValueError, match="does not exist"):
        Journal.read(journal.path)


def window(judge: LatencyJudge, *latencies_ms: float) -> str | None:
    for latency_ms in latencies_ms:
        judge.add(latency_ms)
    judge.end_window()
    return judge.complaint()


def test_producers_suffer_after_several_bad_windows_and_not_after_one() -> None:
    judge = LatencyJudge(factor=2, floor_ms=10, patience=2)
    assert window(judge, 20, 20) is None
    assert window(judge, 100) is None
    assert window(judge, 20) is None
    assert window(judge, 100) is None
    assert window(judge, 100) == "Producers wait 100 ms (p99); at most 40 ms are accepted."


def test_no_answer_is_a_bad_window_and_short_waits_are_never_bad() -> None:
    judge = LatencyJudge(factor=2, floor_ms=10, patience=1)
    window(judge, 1)
    assert window(judge, 9) is None
    assert window(judge) is not None


def test_a_broker_that_restarts_is_not_lost() -> None:
    healthy = simple((1, 2), (2, 3), (3, 1))
    broken = ClusterState(
        brokers={**healthy.brokers, 3: replace(healthy.brokers[3], is_alive=False)}, partitions=healthy.partitions
    )
    detector = AnomalyDetector(dead_after_seconds=60)
    assert detector.look(healthy, {}, 0.0) == []
    (anomaly,) = detector.look(broken, {}, 10.0)
    assert (anomaly.kind, anomaly.broker_id, anomaly.is_due) == ("dead", 3, False)
    assert detector.look(healthy, {}, 40.0) == []
    assert not detector.look(broken, {}, 80.0)[0].is_due
    assert detector.look(broken, {}, 140.0)[0].is_due


def test_failed_directories_slow_brokers_and_skew_are_told() -> None:
    state = simple(*[(1, 2)] * 30)
    detector = AnomalyDetector(60)
    assert {anomaly.kind for anomaly in detector.look(state, {}, 0.0)} == {"skew"}
    failed = replace(state.brokers[1], failed_replicas=frozenset({TopicPartition("t", 0)}))
    with_failed = ClusterState(brokers={**state.brokers, 1: failed}, partitions=state.partitions)
    (anomaly,) = detector.look(with_failed, {1: 5.0, 2: 5.0, 3: 500.0}, 0.0)[:1]
    assert anomaly.kind == "directory"
    assert detector.look(with_failed, {1: 5.0, 2: 5.0, 3: 500.0}, 0.0)[1].text.startswith("broker 3 is slow")
    assert [anomaly.kind for anomaly in detector.look(with_failed, {1: 1.0, 2: 1.0, 3: 40.0}, 0.0)] == ["directory"]


def test_a_broker_is_slow_by_chance_or_again_and_again() -> None:
    state = simple((1, 2), (2, 3), (3, 1))
    detector = AnomalyDetector(60)
    slow, well = {1: 5.0, 2: 5.0, 3: 500.0}, {1: 5.0, 2: 5.0, 3: 6.0}
    assert [detector.look(state, latencies, 0.0)[0].is_due for latencies in (slow, slow)] == [False, False]
    assert detector.look(state, well, 0.0) == []
    assert [detector.look(state, slow, 0.0)[0].is_due for _ in range(3)] == [False, False, True]
    # Two brokers are too few to decide which of them is slow.
    assert detector.look(state, {1: 5.0, 3: 500.0}, 0.0) == []


def test_a_slow_broker_leads_nothing_any_more() -> None:
    state = simple((1, 2), (2, 1), (1,), (1, 3), brokers=3)
    (step,) = make_demotion(state, 1)
    assert [(movement.partition.partition, movement.after) for movement in step.movements] == [(0, (2, 1)), (3, (3, 1))]
    assert step.size_bytes == 0
    assert make_demotion(state, 3) == ()
    assert make_demotion(state, 1, spared_topics=("t",)) == ()
    # All other brokers are dead.
    dead = ClusterState(
        brokers={broker_id: replace(broker, is_alive=broker_id == 1) for broker_id, broker in state.brokers.items()},
        partitions=state.partitions,
    )
    assert make_demotion(dead, 1) == ()


def test_the_leader_after_a_slow_broker_is_alive() -> None:
    state = simple((1, 2, 3), (1, 4, 2), brokers=4)
    failed = replace(state.brokers[4], failed_replicas=frozenset({TopicPartition("t", 1)}))
    dead = replace(state.brokers[2], is_alive=False)
    broken = ClusterState(brokers={**state.brokers, 2: dead, 4: failed}, partitions=state.partitions)
    # Partition 1 has no other replica that could lead.
    (step,) = make_demotion(broken, 1)
    assert [(movement.partition.partition, movement.after) for movement in step.movements] == [(0, (3, 2, 1))]
