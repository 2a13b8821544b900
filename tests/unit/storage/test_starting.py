"""Which state of the previous run a start trusts, and what it defers until the metadata is loaded."""

from __future__ import annotations

import errno

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.config.dynamic import usable_dynamic
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.manager import LogManager
from tests.unit.storage.helpers import log_config, values_of
from tests.unit.storage.logs_node import TOPIC_ID, Node


def test_a_stored_setting_that_is_not_taken_any_more_does_not_stop_the_node() -> None:
    node = Node()
    node.start()
    node.append(node.create("t"), b"a")
    node.stop()
    config = BrokerConfig.embedded({"log.dirs": "/d1"})
    logs = LogManager(node.world.world, config, cluster_id="c1", node_id=1)
    logs.open(lambda _: {"segment.bytes": "16384", "cleanup.policy": "compact"}).result()
    log = logs.get(TopicPartition("t", 0))
    assert log is not None
    assert log.config.compacts
    assert values_of(log) == [b"a"]


@pytest.mark.parametrize("broken", ["no marker", "an older one", "out of service"])
def test_a_run_was_clean_only_if_it_left_every_directory_so(broken: str) -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.stop()
    if broken == "no marker":
        # The directory's last flush failed, or the power failed between the two markers.
        node.files.remove("/d2/.kafka_cleanshutdown")
    elif broken == "an older one":
        # The directory was out of service during later clean shutdowns.
        node.files.write_atomically("/d2/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":4}')
    else:
        node.files.break_directory("/d2")
    assert node.start().previous_broker_epoch == -1


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_checkpoint_that_cannot_be_read_takes_its_directory_out_of_service(was_clean: bool) -> None:
    node = Node("/d1", "/d2")
    node.start()
    for partition in range(4):
        node.append(node.create("t", partition), b"a")
    node.logs.checkpoint()
    node.stop()
    if was_clean:
        # As Apache Kafka leaves a directory.
        node.files.remove("/d2/ottla-clean-logs")
    else:
        node.files.remove("/d2/.kafka_cleanshutdown")
    node.files.fail_next("read", OSError(errno.EIO, "no"), path_contains="/d2/recovery-point-offset-checkpoint")
    logs = node.start()
    assert [directory.is_offline for directory in logs.directories] == [False, True]
    assert {log.directory.rpartition("/")[0] for log in logs} == {"/d1"}
    assert not logs.had_clean_shutdown
    assert logs.previous_broker_epoch == -1


def test_a_run_that_left_every_directory_cleanly_was_clean() -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.stop()
    assert node.start().previous_broker_epoch == 5


def test_nothing_is_deleted_before_the_settings_are_known() -> None:
    node = Node(log_initial_task_delay_ms="0", log_retention_check_interval_ms="1000", log_retention_ms="1000")
    node.start()
    log = node.create("t", retention_ms=-1)
    node.append(log, b"a")
    log.update_high_watermark(1)
    node.stop()
    config = BrokerConfig.embedded({"log.dirs": "/d1", **node.properties})
    logs = LogManager(node.world.world, config, cluster_id="c1", node_id=1)
    logs.open(begins_upkeep=False).result()
    reopened = logs.get(TopicPartition("t", 0))
    assert reopened is not None
    # The topic's unlimited retention is not known yet; the node waits for its controller.
    assert reopened.config.retention_ms == 1000
    node.world.scheduler.advance(60_000)
    assert values_of(reopened) == [b"a"]
    logs.get_or_create(TopicPartition("t", 0), TOPIC_ID, log_config(retention_ms=-1))
    logs.begin_upkeep()
    node.world.scheduler.advance(60_000)
    assert values_of(reopened) == [b"a"]
    reopened.configure(log_config(retention_ms=1000))
    node.world.scheduler.advance(60_000)
    assert values_of(reopened) == []


@pytest.mark.parametrize(("dynamic", "left"), [({}, []), ({"producer.id.expiration.ms": "60000"}, [7])])
def test_no_producer_expires_before_the_settings_are_known(dynamic: dict[str, str], left: list[int]) -> None:
    node = Node(producer_id_expiration_ms="1000")
    node.start()
    log = node.create("t")
    record = Record(key=None, value=b"a", timestamp=node.world.clock.now_ms())
    batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_built(batch, leader_epoch=0, now_ms=node.world.clock.now_ms())
    node.stop()
    node.world.scheduler.advance(5000)
    config = BrokerConfig.embedded({"log.dirs": "/d1", **node.properties})
    logs = LogManager(node.world.world, config, cluster_id="c1", node_id=1)
    logs.open(begins_upkeep=False).result()
    reopened = logs.get(TopicPartition("t", 0))
    assert reopened is not None
    assert [entry.producer_id for entry in reopened.active_producers()] == [7]
    # The cluster-wide defaults are known only now.
    logs.config, _ = usable_dynamic(config, dynamic={}, dynamic_defaults=dynamic)
    logs.begin_upkeep()
    node.world.scheduler.run()
    assert [entry.producer_id for entry in reopened.active_producers()] == left


def test_the_marker_of_a_clean_end_is_gone_for_good_before_the_logs_are_used() -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.stop()
    node.files.fail_next("sync_directory", OSError(errno.EIO, "input/output error"), path_contains="/d2")
    assert [directory.path for directory in node.start().online_directories()] == ["/d1"]


def test_after_a_crash_the_directory_of_a_short_log_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.start()
    for partition in range(3):
        log = node.create("t", partition)
        if partition:
            node.append(log, b"a")
    node.kill()
    listed: list[str] = []
    list_directory = node.files.list_directory

    def count(path: str) -> list[str]:
        listed.append(path)
        return list_directory(path)

    monkeypatch.setattr(node.files, "list_directory", count)
    logs = node.start()
    assert [path for path in sorted(listed) if path.startswith("/d1/t-")] == ["/d1/t-0", "/d1/t-1", "/d1/t-2"]
    assert [log.log_end_offset for log in logs] == [0, 1, 1]


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_log_that_cannot_be_opened_keeps_its_offsets_for_the_next_start(was_clean: bool) -> None:
    """Otherwise deleted records would come back, and the high watermark would be lost."""
    node = Node()
    node.start()
    log = node.create("t")
    for number in range(3):
        node.append(log, b"%d" % number)
    log.update_high_watermark(3)
    log.advance_log_start_offset(2)
    if was_clean:
        node.stop()
    else:
        node.logs.checkpoint().result()
        node.kill()
    # The directory has changed since the clean shutdown, so the log is opened from its files.
    node.files.write_atomically("/d1/t-0/foreign", b"")
    for _ in range(2):
        node.files.fail_next("open", OSError(errno.EMFILE, "too many open files"), path_contains="/d1/t-0/")
    assert node.start().is_refused(TopicPartition("t", 0))
    node.stop()
    reopened = node.start().get(TopicPartition("t", 0))
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.high_watermark, reopened.log_end_offset) == (2, 3, 3)


def test_a_former_topic_that_cannot_be_opened_leaves_no_offsets_to_the_next_of_its_name() -> None:
    node = Node()
    node.start()
    log = node.create("t")
    node.append(log, b"a", b"b")
    node.append(log, b"c")
    log.update_high_watermark(3)
    log.advance_log_start_offset(2)
    node.stop()
    node.files.write_atomically("/d1/t-0/foreign", b"")
    for _ in range(2):
        node.files.fail_next("open", OSError(errno.EMFILE, "too many open files"), path_contains="/d1/t-0/")
    logs = node.start()
    new_id = Uuid(b"fedcba9876543210")
    with pytest.raises(KafkaError, match="checkpoint"):
        logs.get_or_create(TopicPartition("t", 0), new_id, log_config())
    node.world.scheduler.run()
    log = logs.get_or_create(TopicPartition("t", 0), new_id, log_config())
    node.append(log, b"new")
    node.stop()
    reopened = node.start().get(TopicPartition("t", 0))
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.log_end_offset) == (0, 1)
