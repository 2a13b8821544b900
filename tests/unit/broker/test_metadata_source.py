"""A node stops when its metadata cannot be updated any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.metadata_source import RemoteMetadata, controller_addresses
from ottla.metadata.follower import MetadataFollower
from ottla.metadata.format import format_storage
from ottla.model.deferred import Deferred
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld
from tests.unit.broker.test_lifecycle import CLUSTER_ID, CONFIG


def remote_metadata(failures: list[BaseException]) -> RemoteMetadata:
    virtual = VirtualWorld(immediate_workers=True, files=MemoryFiles())
    virtual.files.make_directories("/d1")
    storage = format_storage(
        virtual.files,
        log_dirs=CONFIG.log_dirs,
        metadata_log_dir="/d1",
        node_id=1,
        random=virtual.world.random,
        now_ms=virtual.clock.now_ms(),
        cluster_id=CLUSTER_ID,
    )
    return RemoteMetadata(
        config=CONFIG,
        world=virtual.world,
        peers=cast(Any, SimpleNamespace(send=lambda *_, **__: Deferred(), disconnect=lambda *_, **__: None)),
        storage=storage,
        metadata_directory="/d1",
        controllers=controller_addresses(CONFIG),
        on_fatal=failures.append,
    )


def test_a_defect_in_replaying_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    defect = KeyError("a defect")
    failures: list[BaseException] = []
    metadata = remote_metadata(failures)

    def fail(_: MetadataFollower, **_how: bool) -> None:
        raise defect

    monkeypatch.setattr(MetadataFollower, "advance", fail)
    (tell,) = metadata._log.on_committed
    tell()
    assert failures == [defect]
    metadata.close()


def test_a_disk_that_cannot_be_read_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[BaseException] = []
    metadata = remote_metadata(failures)

    def fail(_: MetadataFollower, **_how: bool) -> None:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(MetadataFollower, "advance", fail)
    (tell,) = metadata._log.on_committed
    with pytest.raises(OSError, match="does not answer"):
        tell()
    assert failures == []
    metadata.close()
