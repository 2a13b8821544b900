"""kafka-dump-log reads the snapshots of the metadata that a controller writes, and what a new directory begins with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.host.files import OsFiles
from ottla.metadata.bootstrap import write_bootstrap
from ottla.metadata.snapshot_policy import write_image
from tests.java.test_dump_log import dump
from tests.support.java import ToolServer
from tests.support.virtual_world import VirtualWorld
from tests.unit.metadata import harness as harness_module
from tests.unit.metadata.harness import ControllerHarness


def test_a_snapshot_holds_every_record(java: ToolServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness_module, "DIRECTORY", str(tmp_path))
    harness = ControllerHarness(virtual=VirtualWorld(immediate_workers=True, files=OsFiles()))
    harness.add_broker(1, rack="here")
    for number in range(300):
        harness.create(f"topic-{number}", 20)
    snapshot = write_image(harness.log, harness.image).result()
    harness.log.close()
    path = tmp_path / "__cluster_metadata-0" / snapshot.file_name
    text = dump(java, path, options=("--cluster-metadata-decoder",))
    assert f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}" in text
    assert "SnapshotHeader" in text
    assert "SnapshotFooter" in text
    # Six thousand partitions do not fit into one batch.
    assert len(re.findall(r"^baseOffset", text, re.MULTILINE)) > 2
    assert len(re.findall(r'"type":"TOPIC_RECORD"', text)) == 300
    assert len(re.findall(r'"type":"PARTITION_RECORD"', text)) == 6000
    assert '"rack":"here"' in text


def test_a_new_directory_begins_with_kafkas_features(java: ToolServer, tmp_path: Path) -> None:
    write_bootstrap(OsFiles(), str(tmp_path), now_ms=1_700_000_000_000)
    text = dump(java, tmp_path / "bootstrap.checkpoint", options=("--cluster-metadata-decoder",))
    assert '"name":"metadata.version","featureLevel":30' in text
    assert "SnapshotFooter" in text
