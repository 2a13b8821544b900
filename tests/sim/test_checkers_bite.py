"""Every checker finds the node or client that breaks its rule, within a few seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.sim.faults.steps import Step
from ottla.sim.plans import Plan
from ottla.sim.scenario import run_plan
from tests.sim import broken_clients, broken_data_path, broken_groups, broken_metadata, broken_transactions

# Usually one of the first two seeds is enough. More seeds are tried if not: the run of a seed also depends on the order
# of hashes, which differs between processes.
SEEDS_MAX = 25

DAMAGED_SEGMENTS: dict[str, object] = {
    "seconds": 20.0,
    "faults": ("damaged segment",),
    "fault_pause_seconds": (0.5, 3.0),
    "topic_configs": (("internal.segment.bytes", "2048"),),
    "settings": {"ottla.log.scrub.bytes.per.second": "1000000", "ottla.log.scrub.interval.ms": "2000"},
}

CASES: list[tuple[Callable[[pytest.MonkeyPatch], None], set[str], dict[str, object]]] = [
    (
        broken_data_path.answers_before_replication,
        {"no acknowledged record is lost", "no gap in producer sequences"},
        {"faults": ("slow links", "kill", "partition")},
    ),
    (
        broken_data_path.serves_beyond_the_high_watermark,
        {"read records stay", "stable reads"},
        {"faults": ("slow links", "kill", "partition")},
    ),
    (
        broken_data_path.starts_requests_as_they_arrive,
        {"answers of a connection never go back"},
        {"pipelines": 2, "seconds": 6.0},
    ),
    (broken_data_path.high_watermark_follows_any_follower, {"high watermark"}, {"faults": ("slow links",)}),
    (broken_data_path.ignores_sequence_numbers, {"idempotent writes"}, {"faults": ("connection resets", "freeze")}),
    (broken_data_path.follower_stamps_batches_itself, {"committed prefixes are equal"}, {"seconds": 3.0}),
    (
        broken_data_path.follower_truncates_too_much,
        {"no acknowledged record is lost", "stable reads"},
        {"faults": ("kill", "restart")},
    ),
    (
        broken_data_path.follower_counts_the_next_record_as_committed,
        {"replica invariants"},
        {"seconds": 3.0},
    ),
    (
        broken_data_path.leader_does_not_step_down,
        {"liveness"},
        {"faults": ("freeze", "partition"), "heal_seconds_max": 40.0},
    ),
    (
        broken_data_path.commits_without_a_joining_replica,
        {"in-sync replicas hold all committed records"},
        {
            "nodes": 4,
            "seconds": 20.0,
            "faults": ("late alterations",),
            "settings": {
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "700",
                "replica.lag.time.max.ms": "2000",
            },
        },
    ),
    (broken_data_path.reads_skip_a_batch, {"no record is skipped"}, {"seconds": 3.0}),
    (
        broken_data_path.damaged_segments_stay_damaged,
        {"liveness"},
        {**DAMAGED_SEGMENTS, "seconds": 8.0, "heal_seconds_max": 15.0},
    ),
    (
        broken_data_path.repairs_with_fewer_records,
        {"no acknowledged record is lost", "committed prefixes are equal", "liveness"},
        {**DAMAGED_SEGMENTS, "seconds": 8.0, "heal_seconds_max": 15.0},
    ),
    (
        broken_data_path.nobody_comes_back_into_sync,
        {"liveness"},
        {"faults": ("kill",), "heal_seconds_max": 40.0},
    ),
    (
        broken_metadata.new_leader_in_the_old_epoch,
        {"one leader per partition epoch"},
        {"faults": ("freeze", "restart")},
    ),
    (
        broken_metadata.fenced_brokers_keep_their_leaderships,
        {"metadata invariants"},
        {"faults": ("freeze",), "heal_seconds_max": 5.0},
    ),
    (
        broken_metadata.one_vote_is_a_majority,
        {"one controller per quorum epoch"},
        {"controllers": 3, "producers": 1, "faults": ("kill", "partition")},
    ),
    (
        broken_metadata.another_disk_is_the_voter,
        {"committed metadata is on a majority of voters"},
        {
            "controllers": 3,
            "has_voters_in_log": True,
            "producers": 1,
            "churns_topics": True,
            "faults": ("unmounted disk",),
            "settings": {
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "700",
                "metadata.log.dir": "/metadata",
            },
        },
    ),
    (
        broken_metadata.one_node_skips_records,
        {"one metadata history"},
        # The cluster never heals, and simulating minutes of waiting takes minutes, too.
        {"faults": ("restart",), "seconds": 6.0, "heal_seconds_max": 5.0},
    ),
    (broken_metadata.metadata_is_not_synced, {"one metadata history"}, {"faults": ("power loss",), "seconds": 30.0}),
    (
        broken_data_path.aborted_transactions_are_not_listed,
        {"transactions"},
        {"transactions": 1, "producers": 0, "seconds": 3.0},
    ),
    (
        broken_data_path.one_partition_never_hears_of_commits,
        {"transactions"},
        {"transactions": 1, "producers": 0, "seconds": 3.0},
    ),
    (
        broken_transactions.ends_of_any_epoch_are_believed,
        {"late messages", "transactions"},
        {"transactions": 1, "producers": 0, "is_transaction_version_2": True, "seconds": 6.0},
    ),
    (
        broken_transactions.partitions_are_added_by_anybody,
        {"late messages"},
        {"transactions": 1, "producers": 0, "is_transaction_version_2": True, "seconds": 6.0},
    ),
    (
        broken_transactions.partitions_do_not_ask_the_coordinator,
        {"transactions"},
        {"transactions": 1, "producers": 0, "is_transaction_version_2": False, "seconds": 6.0},
    ),
    (
        broken_transactions.offsets_of_aborted_transactions_count,
        {"transactions"},
        {"copies": 1, "producers": 1, "seconds": 6.0},
    ),
    (
        broken_transactions.offsets_of_transactions_are_dropped,
        {"transactions"},
        {"copies": 1, "producers": 1, "seconds": 6.0, "steps": (Step("PRODUCE", "arrives", "partition leader"),)},
    ),
    (
        broken_transactions.decided_transactions_are_not_finished,
        {"transactions", "liveness"},
        {
            "copies": 1,
            "producers": 1,
            "seconds": 10.0,
            "steps": (Step("WRITE_TXN_MARKERS", "arrives", "transaction coordinator"),),
            "heal_seconds_max": 60.0,
        },
    ),
    (
        broken_groups.everybody_gets_the_same,
        {"one owner per partition and generation"},
        {"group_kinds": ("classic",), "groups": 2, "producers": 0, "seconds": 6.0},
    ),
    (
        broken_groups.members_leave_but_their_protocols_stay,
        {"coordinator invariants"},
        {"group_kinds": ("classic",), "groups": 2, "producers": 0, "seconds": 6.0},
    ),
    (
        broken_groups.late_commits_are_taken,
        {"late commits"},
        {"group_kinds": ("consumer",), "groups": 2, "producers": 0, "seconds": 12.0},
    ),
    (
        broken_groups.offsets_live_in_memory,
        {"committed offsets stay"},
        {"group_kinds": ("commits",), "groups": 2, "producers": 0, "faults": ("kill", "restart")},
    ),
    (
        broken_clients.a_retry_gets_new_sequence_numbers,
        {"idempotent writes"},
        {"applications": 1, "producers": 0, "seconds": 5.0, "faults": ("connection resets",)},
    ),
    (
        broken_clients.the_last_record_of_a_batch_is_skipped,
        {"consumers skip nothing"},
        {"applications": 3, "producers": 0, "seconds": 3.0},
    ),
    (
        broken_clients.aborted_records_are_handed_out,
        {"transactions"},
        {"applications": 4, "producers": 0, "seconds": 3.0},
    ),
    (
        broken_clients.a_transaction_ends_before_its_records_are_sent,
        {"transactions"},
        {"applications": 4, "producers": 0, "seconds": 3.0},
    ),
]


@pytest.mark.parametrize(("break_nodes", "rules", "settings"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_broken_node_is_found(
    monkeypatch: pytest.MonkeyPatch,
    break_nodes: Callable[[pytest.MonkeyPatch], None],
    rules: set[str],
    settings: dict[str, object],
) -> None:
    break_nodes(monkeypatch)
    seen: set[str] = set()
    for seed in range(SEEDS_MAX):
        plan = Plan(**{"seed": seed, "seconds": 12.0, **BASE, **settings})  # type: ignore[arg-type]
        # The run goes on to its end, because another rule may be broken first.
        seen |= {finding.rule for finding in run_plan(plan).findings}
        if seen & rules:
            return
    pytest.fail(f"no checker noticed it; the findings are {sorted(seen)}")


BASE: dict[str, object] = {
    "topics": {"t": 2},
    "groups": 0,
    "churns_topics": False,
    "producers": 3,
    "fault_pause_seconds": (0.3, 2.0),
    "settings": {
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "700",
        "group.initial.rebalance.delay.ms": "0",
    },
}
