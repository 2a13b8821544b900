"""A scenario of transactional producers, sent request by request to a fresh broker: its answers and its records.

The same scenario runs on Apache Kafka (`tests/data/make_transaction_answers.py` keeps its answers) and on Ottla.
Values that differ from run to run are normalised: producer ids become numbers in the order of their appearance, times
become "time", messages become "said", lists without an order are sorted.
"""

from __future__ import annotations

import time
from typing import Any

from ottla.coordinator.runtime import RecordFormat
from ottla.model.errors import ErrorCode
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.message import Message, Structure
from ottla.wire.messages import add_partitions_to_txn as ap
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import fetch as f
from ottla.wire.messages import offset_fetch as of
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.transaction_records import KEY_CLASSES, VALUE_CLASSES
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.raw_client import RawClient

__all__ = ["SETTINGS", "make_ready", "play"]

SETTINGS: dict[str, str] = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.max.timeout.ms": "100000",
}

_LEFT_OUT = frozenset(("throttle_time_ms", "port", "host", "node_id"))
_TIMES = frozenset(
    ("transaction_start_time_ms", "transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms")
)
_PRODUCERS = frozenset(("producer_id", "previous_producer_id", "next_producer_id"))
_UNORDERED = frozenset(
    (
        "results_by_topic_v3_and_below",
        "results_by_transaction",
        "topic_results",
        "results_by_partition",
        "transaction_states",
        "topics",
        "partitions",
        "transaction_partitions",
        "partition_ids",
        "unknown_state_filters",
        "results",
    )
)
_FORMAT = RecordFormat(KEY_CLASSES, VALUE_CLASSES, lambda _: 1)

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def play(bootstrap: str) -> dict[str, Any]:
    """Sends all requests to a fresh broker; returns answers and records by label, as plain values."""
    player = _Player(bootstrap)
    try:
        make_ready(player.client)
        for part in (_initialising, _first_version, _of_brokers, _offsets, _second_version, _fencing, _continuing):
            part(player)
        for part in (_timeout, _administration, _older_levels):
            part(player)
        player.records()
    finally:
        player.client.close()
    return player.answers


def make_ready(client: RawClient) -> None:
    """Creates the topic `t`, and waits until both coordinators have created and loaded their topics."""
    topic = ct.CreatableTopic(name="t", num_partitions=3, replication_factor=1)
    assert not client.call(ct.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0].error_code
    of_group = of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup(group_id="none")])
    for _ in range(1000):
        metadata = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12).topics[0]
        answers = [
            client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]), 4).coordinators[0]
            for kind in (0, 1)
        ]
        # Producer ids come in blocks from the controller, and the broker has to request the first block.
        producer_id = client.call(InitProducerIdRequest(transactional_id=None), 4)
        transaction = client.call(DescribeTransactionsRequest(transactional_ids=["x"]), 0).transaction_states[0]
        group = client.call(of_group, 8).groups[0]
        is_ready = not any(response.error_code for response in (metadata, producer_id, group, *answers))
        if is_ready and transaction.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return
        time.sleep(0.05)
    raise AssertionError(f"no coordinator: {answers}")


class _Player:
    def __init__(self, bootstrap: str) -> None:
        self.client = RawClient(bootstrap, client_id="client")
        self.answers: dict[str, Any] = {}
        self._producers: dict[int, str] = {}

    def say(self, label: str, request: Message, version: int) -> Any:
        assert label not in self.answers, f"said twice: {label}"
        answer = self.client.call(request, version)
        self.answers[label] = self.plain(answer)
        return answer

    def described(self, transactional_id: str) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self.client.call(request, 0).transaction_states[0]

    def wait_for_level(self, feature: str, level: int) -> None:
        """Waits for a feature level, because brokers replay changes later; a feature at level 0 is not listed."""
        for _ in range(3000):
            answer = self.client.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
            levels = {finalized.name: finalized.max_version_level for finalized in answer.finalized_features}
            if levels.get(feature, 0) == level:
                return
            time.sleep(0.01)
        raise AssertionError(f"{levels} has not {feature} at {level}")

    def wait_for(self, transactional_id: str, state: str) -> None:
        for _ in range(3000):
            if self.described(transactional_id).transaction_state == state:
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.described(transactional_id)} is not {state}")

    def init(self, label: str, transactional_id: str, version: int = 5, **fields: Any) -> tuple[int, int]:
        fields = {"transaction_timeout_ms": 60_000, **fields}
        answer = self.say(label, InitProducerIdRequest(transactional_id=transactional_id, **fields), version)
        return answer.producer_id, answer.producer_epoch

    def add(self, label: str, transactional_id: str, producer: tuple[int, int], *partitions: Any, version: int) -> Any:
        if version < 4:
            request = ap.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=_topics(partitions),
            )
        else:
            request = ap.AddPartitionsToTxnRequest(transactions=[_transaction(transactional_id, producer, partitions)])
        return self.say(label, request, version)

    def end(
        self, label: str, transactional_id: str, producer: tuple[int, int], *, commits: bool, version: int
    ) -> tuple[int, int]:
        """Sends EndTxn and waits until the transaction has ended."""
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commits
        )
        answer = self.say(label, request, version)
        if not answer.error_code:
            self.wait_for(transactional_id, "CompleteCommit" if commits else "CompleteAbort")
        return answer.producer_id, answer.producer_epoch

    def describe(self, label: str, *transactional_ids: str) -> None:
        self.say(label, DescribeTransactionsRequest(transactional_ids=list(transactional_ids)), 0)

    def plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Structure):
            fields = {slot: self.plain(getattr(value, slot), slot) for slot in value.__slots__ if slot not in _LEFT_OUT}
            return {type(value).__name__: fields} if isinstance(value, Message) else fields
        if name in _PRODUCERS and value >= 0:
            return self._producers.setdefault(value, f"producer {len(self._producers)}")
        if name == "error_message":
            return "said" if value else value
        if name in _TIMES:
            return "time" if value > 0 else value
        if not isinstance(value, list):
            return value
        plain = [self.plain(element) for element in value]
        return sorted(plain, key=repr) if name in _UNORDERED else plain

    def records(self) -> None:
        """Notes all records of the topic of transactions in order, with their format version."""
        offset = 0
        count = 0
        while batches := self._read(offset):
            for batch in iterate_batches(batches):
                for record in iterate_records(batch):
                    assert record.key is not None
                    assert record.value is not None
                    pair = _FORMAT.decode(memoryview(record.key), memoryview(record.value))
                    count += 1
                    version = int.from_bytes(bytes(record.value[:2]), "big")
                    self.answers[f"record {count}"] = [version, *(self.plain(part) for part in pair)]
                offset = batch.header.next_offset

    def _read(self, offset: int) -> bytes:
        partition = f.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = f.FetchTopic(topic="__transaction_state", partitions=[partition])
        answer = self.client.call(f.FetchRequest(max_bytes=1 << 24, topics=[topic]), 11)
        data = answer.responses[0].partitions[0]
        assert not data.error_code
        return bytes(data.records or b"")


def _topics(partitions: Any) -> list[ap.AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return [ap.AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()]


def _transaction(
    transactional_id: str, producer: tuple[int, int], partitions: Any, *, verifies: bool = False
) -> ap.AddPartitionsToTxnTransaction:
    return ap.AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verifies,
        topics=_topics(partitions),
    )


def _initialising(player: _Player) -> None:
    for version in range(6):
        player.init(f"init, version {version}", "i", version)
    player.init("init of another", "other")
    player.init("init without an id", "", 4)
    for timeout_ms in (0, -1, 100_000, 100_001):
        player.init(f"init with a timeout of {timeout_ms}", "timeouts", transaction_timeout_ms=timeout_ms)
    player.init("init with an id but no epoch", "i", producer_id=1)
    player.init("init with an epoch but no id", "i", producer_epoch=1)
    player.init("init of nobody with an identity", "nobody", producer_id=77_777, producer_epoch=3)
    player.say("init without transactions", InitProducerIdRequest(transactional_id=None), 4)
    for version in (3, 4):
        player.say(
            f"init without transactions, with half an identity, version {version}",
            InitProducerIdRequest(transactional_id=None, producer_id=1),
            version,
        )
    for version in (1, 4, 6):
        request = FindCoordinatorRequest(key_type=1, key="i", coordinator_keys=["i", ""] if version >= 4 else [])
        if version < 4:
            request.coordinator_keys = []
        else:
            request.key = ""
        player.say(f"coordinator, version {version}", request, version)


def _first_version(player: _Player) -> None:
    producer = player.init("first: init", "first", 4)
    stranger, older = (producer[0] + 1000, producer[1]), (producer[0], producer[1] + 1)
    for version in (0, 1, 2, 3):
        player.add(
            f"first: add, unknown topic, version {version}", "first", producer, T0, ("nothing", 0), version=version
        )
        player.add(f"first: add, wrong epoch, version {version}", "first", older, T0, version=version)
    player.add("first: add, unknown partition", "first", producer, T0, ("t", 3), version=3)
    player.add("first: add, internal topic", "first", producer, T0, ("__consumer_offsets", 0), version=3)
    player.add("first: add, wrong producer", "first", stranger, T0, version=3)
    player.add("first: add, unknown id", "never", producer, T0, version=3)
    player.add("first: add, empty id", "", producer, T0, version=3)
    player.add("first: add nothing", "first", producer, version=3)
    player.describe("first: described after nothing was added", "first")
    player.end("first: commit of nothing", "first", producer, commits=True, version=3)
    player.add("first: add", "first", producer, T0, version=0)
    player.add("first: add again", "first", producer, T0, version=3)
    player.add("first: add another", "first", producer, T0, T1, version=3)
    player.describe("first: described while open", "first")
    for version in (0, 1, 2, 3, 4):
        player.end(f"first: end, wrong epoch, version {version}", "first", older, commits=True, version=version)
    player.end("first: end, wrong producer", "first", stranger, commits=True, version=4)
    player.end("first: end, unknown id", "never", producer, commits=True, version=4)
    player.end("first: end, empty id", "", producer, commits=True, version=4)
    player.end("first: commit", "first", producer, commits=True, version=4)
    player.end("first: commit again", "first", producer, commits=True, version=4)
    player.end("first: abort what is committed", "first", producer, commits=False, version=4)
    player.describe("first: described after the commit", "first")
    player.add("first: add to the next", "first", producer, T2, version=3)
    player.end("first: abort", "first", producer, commits=False, version=2)
    player.end("first: abort again", "first", producer, commits=False, version=2)
    player.end("first: commit what is aborted", "first", producer, commits=True, version=2)
    player.init("first: init again", "first", 4, transaction_timeout_ms=50_000)
    player.add("first: add after another init", "first", producer, T2, version=3)
    player.end("first: end after another init", "first", producer, commits=True, version=4)
    player.end("first: end of the empty", "first", (producer[0], producer[1] + 1), commits=False, version=4)


def _of_brokers(player: _Player) -> None:
    first, second = player.init("brokers: init one", "b1"), player.init("brokers: init two", "b2")
    for version in (4, 5):
        transactions = [
            _transaction("b1", first, [T0, T1], verifies=True),
            _transaction("b2", (second[0], second[1] + 1), [T0], verifies=True),
            _transaction("never", second, [T0], verifies=True),
            _transaction("", second, [T0], verifies=True),
        ]
        request = ap.AddPartitionsToTxnRequest(transactions=transactions)
        player.say(f"brokers: verify before anything, version {version}", request, version)
    request = ap.AddPartitionsToTxnRequest(
        transactions=[_transaction("b1", first, [T0, T1]), _transaction("b2", second, [T2], verifies=True)]
    )
    player.say("brokers: add and verify", request, 5)
    request = ap.AddPartitionsToTxnRequest(
        transactions=[
            _transaction("b1", first, [T0, T2], verifies=True),
            _transaction("b2", second, [T2, ("nothing", 0)], verifies=True),
        ]
    )
    player.say("brokers: verify", request, 5)
    player.add("brokers: add to the topic of offsets", "b2", second, ("__consumer_offsets", 0), version=5)
    player.add("brokers: add of a stranger", "b2", (second[0] + 1000, 0), T0, version=5)
    player.describe("brokers: described", "b1", "b2", "b1", "never", "")
    player.end("brokers: one commits", "b1", first, commits=True, version=5)
    player.end("brokers: two aborts", "b2", second, commits=False, version=5)
    player.describe("brokers: described after the end", "b1", "b2")


def _offsets(player: _Player) -> None:
    producer = player.init("offsets: init", "offsets")
    for version in range(5):
        request = AddOffsetsToTxnRequest(
            transactional_id="offsets", producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        player.say(f"offsets: add, version {version}", request, version)
        request = AddOffsetsToTxnRequest(
            transactional_id="offsets", producer_id=producer[0], producer_epoch=producer[1] + 1, group_id="g"
        )
        player.say(f"offsets: add, wrong epoch, version {version}", request, version)
    for transactional_id, producer_id in (("never", producer[0]), ("", producer[0]), ("offsets", producer[0] + 1000)):
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer[1], group_id="g"
        )
        player.say(f"offsets: add to {transactional_id!r} of {producer_id - producer[0]}", request, 4)
    request = AddOffsetsToTxnRequest(
        transactional_id="offsets", producer_id=producer[0], producer_epoch=producer[1], group_id=""
    )
    player.say("offsets: add without a group", request, 4)
    player.describe("offsets: described", "offsets")
    player.end("offsets: commit", "offsets", producer, commits=True, version=4)


def _second_version(player: _Player) -> None:
    first = player.init("second: init", "second")
    player.end("second: commit of nothing", "second", first, commits=True, version=5)
    second = player.end("second: abort of nothing", "second", first, commits=False, version=5)
    player.end("second: abort of nothing again", "second", first, commits=False, version=5)
    player.end("second: commit of what was aborted", "second", first, commits=True, version=5)
    player.add("second: add with the old epoch", "second", first, T0, version=5)
    player.add("second: add", "second", second, T0, version=5)
    player.end("second: commit with the old epoch", "second", first, commits=True, version=5)
    player.end("second: commit with a later epoch", "second", (second[0], second[1] + 1), commits=True, version=5)
    player.end("second: commit of a stranger", "second", (second[0] + 1000, second[1]), commits=True, version=5)
    third = player.end("second: commit", "second", second, commits=True, version=5)
    player.end("second: commit again", "second", second, commits=True, version=5)
    player.end("second: abort what is committed", "second", second, commits=False, version=5)
    player.end("second: commit without a next", "second", third, commits=True, version=5)
    fourth = player.end("second: abort without a next", "second", third, commits=False, version=5)
    fifth = player.end("second: abort without a next, twice", "second", fourth, commits=False, version=5)
    player.describe("second: described", "second")
    player.add("second: add to the last", "second", fifth, T0, T1, T2, version=5)
    player.end("second: abort", "second", fifth, commits=False, version=5)
    player.end("second: abort again", "second", fifth, commits=False, version=5)
    player.end("second: ended as if it were of the first version", "second", fifth, commits=False, version=4)
    player.init("second: init again", "second")


def _fencing(player: _Player) -> None:
    first = player.init("fencing: init", "fencing")
    player.add("fencing: add", "fencing", first, T0, T1, version=5)
    player.init("fencing: init while open", "fencing")
    player.wait_for("fencing", "CompleteAbort")
    player.describe("fencing: described", "fencing")
    player.end("fencing: end of the fenced", "fencing", first, commits=True, version=5)
    player.add("fencing: add of the fenced", "fencing", first, T0, version=5)
    second = player.init("fencing: init once more", "fencing")
    player.end("fencing: end of the replaced", "fencing", first, commits=False, version=5)
    player.add("fencing: first version", "fencing", second, T0, version=3)
    player.init("fencing: init while open, first version", "fencing", 3)
    player.wait_for("fencing", "CompleteAbort")
    player.end("fencing: end of the fenced, first version", "fencing", second, commits=True, version=4)
    player.init("fencing: init at last", "fencing", 3)


def _continuing(player: _Player) -> None:
    """A producer that sends its previous id and epoch (KIP-360)."""
    first = player.init("continuing: init", "continuing")
    second = player.init("continuing: with its epoch", "continuing", producer_id=first[0], producer_epoch=first[1])
    player.init("continuing: repeated", "continuing", producer_id=first[0], producer_epoch=first[1])
    player.init("continuing: from the future", "continuing", producer_id=first[0], producer_epoch=second[1] + 1)
    player.init("continuing: of another", "continuing", producer_id=first[0] + 1000, producer_epoch=second[1])
    player.init("continuing: from the past, version 3", "continuing", 3, producer_id=first[0], producer_epoch=9)
    player.add("continuing: add", "continuing", second, T0, version=5)
    player.init(
        "continuing: of a stranger while open", "continuing", producer_id=first[0] + 1000, producer_epoch=second[1]
    )
    player.init("continuing: while open", "continuing", producer_id=second[0], producer_epoch=second[1])
    player.wait_for("continuing", "CompleteAbort")
    third = player.init("continuing: after the abort", "continuing", producer_id=second[0], producer_epoch=second[1])
    player.init("continuing: somebody new", "continuing")
    player.init("continuing: the replaced", "continuing", producer_id=third[0], producer_epoch=third[1])


def _timeout(player: _Player) -> None:
    producer = player.init("timeout: init", "timeout", transaction_timeout_ms=200)
    player.add("timeout: add", "timeout", producer, T0, version=5)
    player.wait_for("timeout", "CompleteAbort")
    player.describe("timeout: described", "timeout")
    player.add("timeout: add of the late", "timeout", producer, T0, version=5)
    player.end("timeout: commit of the late", "timeout", producer, commits=True, version=5)
    player.end("timeout: abort of the late", "timeout", producer, commits=False, version=5)
    player.init("timeout: continued", "timeout", producer_id=producer[0], producer_epoch=producer[1])


def _administration(player: _Player) -> None:
    open_one = player.init("administration: init", "open-one")
    player.add("administration: add", "open-one", open_one, T0, T2, version=5)
    player.say("list", ListTransactionsRequest(), 0)
    filters: dict[str, dict[str, Any]] = {
        "open": {"state_filters": ["Ongoing"]},
        "ended": {"state_filters": ["CompleteCommit", "CompleteAbort"]},
        "of no known state": {"state_filters": ["Nonsense", "ongoing"]},
        "of known and unknown states": {"state_filters": ["Nonsense", "Empty"]},
        "of one producer": {"producer_id_filters": [open_one[0]]},
        "of an unknown producer": {"producer_id_filters": [987_654]},
    }
    for label, fields in filters.items():
        player.say(f"list: {label}", ListTransactionsRequest(**fields), 0)
    for duration in (-1, 0, 3_600_000):
        request = ListTransactionsRequest(duration_filter=duration, state_filters=["Ongoing"])
        player.say(f"list: longer than {duration}", request, 1)
    for pattern in ("open-.*", "b[0-9]", "second|first", "one", "", "(", None):
        player.say(f"list: like {pattern}", ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    player.describe("describe", "open-one", "never")
    player.end("administration: abort", "open-one", open_one, commits=False, version=5)


def _older_levels(player: _Player) -> None:
    """Transactions at lower levels of the feature `transaction.version`."""
    for level in (1, 0):
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=2)
        player.say(f"level {level}: downgrade", UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]), 1)
        player.wait_for_level("transaction.version", level)
        transactional_id = f"level {level}"
        first = player.init(f"level {level}: init", transactional_id)
        player.add(f"level {level}: add", transactional_id, first, T0, version=3)
        player.end(f"level {level}: commit", transactional_id, first, commits=True, version=4)
        player.add(f"level {level}: add to another", transactional_id, first, T0, version=3)
        player.init(f"level {level}: init while open", transactional_id)
        player.wait_for(transactional_id, "CompleteAbort")
        player.describe(f"level {level}: described", transactional_id)
        second = player.init(f"level {level}: init again", transactional_id)
        player.add(f"level {level}: add once more", transactional_id, second, T1, version=3)
        player.end(f"level {level}: abort", transactional_id, second, commits=False, version=4)
