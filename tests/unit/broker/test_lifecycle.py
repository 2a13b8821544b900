"""How a node starts, with files in memory and other nodes that never answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.context import ListenerInfo
from ottla.broker.lifecycle import NodeLifecycle, StartError
from ottla.broker.metadata_source import RemoteMetadata
from ottla.broker.session import BrokerSession
from ottla.metadata.format import format_storage
from ottla.model.config import BrokerConfig, LogConfig
from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.manager import LogManager
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld

CLUSTER_ID = "bvqR-n8_QomauYpWSwjOMw"
CONFIG = BrokerConfig(
    {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "/d1",
        "log.initial.task.delay.ms": "0",
        "log.retention.check.interval.ms": "1000",
        # In the properties file; for all brokers together another one may be set, which is in the metadata.
        "log.retention.ms": "1000",
    }
)
LISTENER = ListenerInfo(
    name="PLAINTEXT", security_protocol="PLAINTEXT", host="", port=9092, advertised_host="h", advertised_port=9092
)


def test_nothing_is_deleted_while_the_controller_is_away() -> None:
    files = MemoryFiles()
    virtual = VirtualWorld(immediate_workers=True, files=files)
    files.now_ms = virtual.clock.now_ms
    files.make_directories("/d1")
    format_storage(
        files,
        log_dirs=CONFIG.log_dirs,
        metadata_log_dir="/d1",
        node_id=1,
        random=virtual.world.random,
        now_ms=virtual.clock.now_ms(),
        cluster_id=CLUSTER_ID,
    )
    logs = LogManager(virtual.world, CONFIG, cluster_id=CLUSTER_ID)
    logs.open().result()
    topic_id = Uuid.random(virtual.world.random)
    log = logs.get_or_create(TopicPartition("t", 0), topic_id, LogConfig.from_overrides(CONFIG, {}))
    batch = build_batch([Record(key=None, value=b"a", timestamp=1000)])
    log.append_built(batch, leader_epoch=0, now_ms=virtual.clock.now_ms())
    log.update_high_watermark(1)
    logs.close(broker_epoch=5).result()
    silent = SimpleNamespace(send=lambda *_, **__: Deferred(), disconnect=lambda *_, **__: None)
    lifecycle = NodeLifecycle(config=CONFIG, world=virtual.world, peers=cast(Any, silent), listeners=[LISTENER])
    started = lifecycle.start()
    virtual.scheduler.advance(30_000)
    assert not started.done
    assert files.exists("/d1/t-0/00000000000000000000.log")
    lifecycle.stop().result()


def test_a_node_that_stops_before_it_has_registered_does_not_complete_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections of other nodes can keep it waiting between `leave` and `stop`, and its controller answers then."""
    calls: list[str] = []
    caught_up: Deferred[None] = Deferred()
    registered: Deferred[int] = Deferred()

    def register(_: BrokerSession) -> Deferred[int]:
        calls.append("register")
        return registered

    def unfence(_: BrokerSession) -> Deferred[None]:
        calls.append("unfence")
        return Deferred.resolved(None)

    monkeypatch.setattr(RemoteMetadata, "start", lambda _: caught_up)
    monkeypatch.setattr(BrokerSession, "register", register)
    monkeypatch.setattr(BrokerSession, "unfence", unfence)
    files = MemoryFiles()
    virtual = VirtualWorld(immediate_workers=True, files=files)
    files.make_directories("/d1")
    format_storage(
        files,
        log_dirs=CONFIG.log_dirs,
        metadata_log_dir="/d1",
        node_id=1,
        random=virtual.world.random,
        now_ms=virtual.clock.now_ms(),
        cluster_id=CLUSTER_ID,
    )
    silent = SimpleNamespace(send=lambda *_, **__: Deferred(), disconnect=lambda *_, **__: None)

    def started_node() -> tuple[NodeLifecycle, Deferred[Any]]:
        lifecycle = NodeLifecycle(config=CONFIG, world=virtual.world, peers=cast(Any, silent), listeners=[LISTENER])
        started = lifecycle.start()
        assert lifecycle.waits_for_controller
        return lifecycle, started

    lifecycle, started = started_node()
    lifecycle.leave().result()
    caught_up.resolve(None)
    assert (calls, started.done) == ([], False)
    lifecycle.stop().result()

    lifecycle, started = started_node()
    lifecycle.leave().result()
    registered.resolve(7)
    assert (calls, started.done) == (["register"], False)
    lifecycle.stop().result()


class EmptyDirectory:
    """A controller whose metadata directory is empty, beside a log directory that may be formatted."""

    def __init__(self, *, is_formatted: bool, **settings: str) -> None:
        self.files = MemoryFiles()
        virtual = VirtualWorld(immediate_workers=True, files=self.files)
        config = BrokerConfig(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": "/d1",
                "metadata.log.dir": "/m",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.files.make_directories("/d1")
        if is_formatted:
            format_storage(
                self.files,
                log_dirs=["/d1"],
                metadata_log_dir="/d1",
                node_id=1,
                random=virtual.world.random,
                now_ms=virtual.clock.now_ms(),
                cluster_id=CLUSTER_ID,
            )
        silent = SimpleNamespace(send=lambda *_, **__: Deferred(), disconnect=lambda *_, **__: None)
        controller_listener = ListenerInfo(
            name="CONTROLLER",
            security_protocol="PLAINTEXT",
            host="127.0.0.1",
            port=9093,
            advertised_host="127.0.0.1",
            advertised_port=9093,
            is_controller=True,
        )
        listeners = [LISTENER, controller_listener]
        lifecycle = NodeLifecycle(config=config, world=virtual.world, peers=cast(Any, silent), listeners=listeners)
        self.started = lifecycle.start()


THREE_VOTERS = "1@127.0.0.1:9093,2@127.0.0.1:9193,3@127.0.0.1:9293"


@pytest.mark.parametrize(
    ("is_formatted", "settings"),
    [
        # One of several voters: it would vote without the log that its earlier votes rest on.
        (False, {"controller_quorum_voters": THREE_VOTERS}),
        (True, {"controller_quorum_voters": THREE_VOTERS}),
        # The only voter: the log directory shows that this is not a new cluster, and its topics would be unknown.
        (True, {"controller_quorum_voters": "1@127.0.0.1:9093"}),
        (True, {"controller_quorum_bootstrap_servers": "127.0.0.1:9093"}),
    ],
)
def test_a_voter_without_its_metadata_directory_does_not_start(is_formatted: bool, settings: dict[str, str]) -> None:
    node = EmptyDirectory(is_formatted=is_formatted, **settings)
    assert isinstance(node.started.error, StartError)
    assert "/m is not formatted" in str(node.started.error)
    assert not node.files.exists("/m/meta.properties")


@pytest.mark.parametrize(
    ("is_formatted", "settings"),
    [
        # A new cluster of one controller.
        (False, {"controller_quorum_voters": "1@127.0.0.1:9093"}),
        (False, {"controller_quorum_bootstrap_servers": "127.0.0.1:9093"}),
        # The voters are in the log: the new directory gets another id, and is no voter (KIP-853).
        (True, {"controller_quorum_bootstrap_servers": "127.0.0.1:9093,127.0.0.1:9193"}),
    ],
)
def test_other_controllers_format_an_empty_metadata_directory(is_formatted: bool, settings: dict[str, str]) -> None:
    node = EmptyDirectory(is_formatted=is_formatted, **settings)
    assert node.started.error is None
    assert node.files.exists("/m/meta.properties")
