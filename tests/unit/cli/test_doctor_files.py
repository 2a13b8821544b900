"""The doctor on log directories: which segments are damaged, which offsets are affected, and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import run
from ottla.host.files import OsFiles
from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.manager import LogManager
from tests.support.virtual_world import VirtualWorld
from tests.unit.storage.helpers import log_config


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)


class Filled:
    """A log of several segments, of a node that was stopped."""

    def __init__(self, path: Path, *, clean: bool = True) -> None:
        self.path = path
        world = VirtualWorld(immediate_workers=True, files=OsFiles())
        logs = LogManager(world.world, BrokerConfig.embedded({"log.dirs": str(path)}), cluster_id="c1", node_id=1)
        logs.open(begins_upkeep=False).result()
        log = logs.get_or_create(
            TopicPartition("t", 0), Uuid(b"0123456789abcdef"), log_config(segment_bytes=600, index_interval_bytes=1)
        )
        while len(log.segments) < 4:
            value = b"value-%02d" % log.log_end_offset * 5
            log.append_built(build_batch([Record(key=None, value=value, timestamp=1)]), leader_epoch=0, now_ms=0)
            world.scheduler.run()
        self.bases = [segment.base_offset for segment in log.segments]
        self.end = log.log_end_offset
        if clean:
            logs.close(broker_epoch=5).result()
        else:
            log.flush()
            logs.checkpoint()
            for directory in logs.directories:
                directory.close()

    def file(self, number: int, suffix: str = "log") -> Path:
        return self.path / "t-0" / f"{self.bases[number]:020d}.{suffix}"


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def damaged_segments(capsys: pytest.CaptureFixture[str], path: Path) -> list[tuple[int, int, int]]:
    code, out, _ = doctor(capsys, "--log-dir", str(path), "--json")
    answer: dict[str, Any] = json.loads(out)
    damaged = [
        (damagedsegment["segment"], damagedsegment["firstOffset"], damagedsegment["lastOffset"])
        for damagedsegment in answer["damagedSegments"]
    ]
    assert code == (1 if damaged else 0)
    assert answer["partitions"] == 1
    return damaged


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("clean", [True, False])
def test_an_intact_directory_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str], clean: bool) -> None:
    filled = Filled(tmp_path, clean=clean)
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    assert damaged_segments(capsys, filled.path) == []
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before
    code, out, _ = doctor(capsys, "--log-dir", str(tmp_path))
    assert (code, out) == (0, "No segment is damaged (1 partition).\n")


DAMAGES: dict[str, Callable[[Filled], None]] = {
    "removed": lambda filled: filled.file(1).unlink(),
    "emptied": lambda filled: os.truncate(filled.file(1), 0),
    "cut": lambda filled: os.truncate(filled.file(1), 30),
    "no batch": lambda filled: flip(filled.file(1), 16),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_closed_segment(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, clean: bool) -> None:
    filled = Filled(tmp_path, clean=clean)
    DAMAGES[damage](filled)
    first, following = filled.bases[1:3]
    assert damaged_segments(capsys, tmp_path) == [(first, first, following - 1)]
    code, out, _ = doctor(capsys, "--log-dir", str(tmp_path))
    assert code == 1
    assert "t-0" in out
    assert f"{first}-{following - 1}" in out
    assert "start the node" in out


def test_a_rotten_record_affects_its_batch_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled = Filled(tmp_path)
    flip(filled.file(1), filled.file(1).stat().st_size - 1)
    last = filled.bases[2] - 1
    assert damaged_segments(capsys, tmp_path) == [(filled.bases[1], last, last)]


def test_the_last_segment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled = Filled(tmp_path)
    whole = filled.file(3).read_bytes()
    os.truncate(filled.file(3), 0)
    # The recovery point shows where the truncated segment had ended.
    assert damaged_segments(capsys, tmp_path) == [(filled.bases[3], filled.bases[3], filled.end - 1)]
    filled.file(3).write_bytes(whole + b"torn")
    assert damaged_segments(capsys, tmp_path) == [(filled.bases[3], filled.end, filled.end)]
    # After a crash this is usual, and repaired by the next start.
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert damaged_segments(capsys, tmp_path) == []


def test_a_directory_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Filled(tmp_path)
    lock = OsFiles().lock(str(tmp_path / ".lock"))
    # Locks of one process exclude each other by `flock`.
    code, _, err = doctor(capsys, "--log-dir", str(tmp_path))
    assert code == 1
    assert "is in use by a running node" in err
    lock.release()
