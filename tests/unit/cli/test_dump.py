"""`dump-log` reads every file of a data directory that Apache Kafka wrote, and sees what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.app import run
from ottla.cli.logic.dump import DumpOptions, Line, dump_file
from tests.support.kafka_directory import unpack_kafka_directory

EVERYTHING = DumpOptions(records=True, payloads=True)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kafka")
    unpack_kafka_directory(place)
    return place


def files(directory: Path, suffix: str) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob(f"*.{suffix}")) if path.stat().st_size)


def dumped(path: Path, options: DumpOptions = EVERYTHING) -> list[Line]:
    return list(dump_file(str(path), options))


def test_nothing_that_kafka_wrote_is_complained_about(directory: Path) -> None:
    seen: Counter[str] = Counter()
    for suffix in ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint"):
        for path in files(directory, suffix):
            lines = dumped(path)
            assert [line.text for line in lines if line.is_complaint] == [], path
            seen[suffix] += len(lines)
    assert seen["log"] > 100
    assert seen["index"] > 0
    assert seen["timeindex"] > 0


def test_the_logs_of_the_cluster_itself_are_decoded(directory: Path) -> None:
    metadata = [
        line.fields["record"]["payload"]["type"]
        for path in files(directory, "log")
        if path.parent.name == "__cluster_metadata-0"
        for line in dumped(path, DumpOptions(records=True, payloads=True, decoder="metadata"))
        if isinstance(line.fields.get("record", {}).get("payload"), dict)
    ]
    assert {"TOPIC_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD"} <= set(metadata)


def test_damage_is_seen(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = max(files(directory, "log"), key=lambda path: path.stat().st_size)
    damaged = tmp_path / source.name
    content = bytearray(source.read_bytes())
    content[80] ^= 0xFF
    damaged.write_bytes(content)
    assert any(line.is_complaint and "isvalid: false" in line.text for line in dumped(damaged, DumpOptions()))
    assert run(["dump-log", str(damaged)]) == 1
    assert "isvalid: false" in capsys.readouterr().err
    damaged.write_bytes(source.read_bytes()[:-3])
    assert "invalid bytes at the end" in dumped(damaged, DumpOptions())[-1].text


def test_an_index_out_of_order_is_seen(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000100.index"
    index.write_bytes(b"".join(number.to_bytes(4, "big") for number in (5, 0, 9, 400, 7, 800)))
    lines = dumped(index)
    assert [line.text for line in lines if not line.is_complaint] == [
        "offset: 105 position: 0",
        "offset: 109 position: 400",
        "offset: 107 position: 800",
    ]
    assert [line.text for line in lines if line.is_complaint] == ["Index offset 107 is not greater than 109"]


@pytest.mark.parametrize("name", ["node.log", "a.index", "b.timeindex"])
def test_what_is_no_file_of_a_log_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / name).write_text("something else")
    assert run(["dump-log", str(tmp_path / name)]) == 1
    error_output = capsys.readouterr().err
    assert error_output == f"ottla: {tmp_path / name} is not named by its first offset, as the files of a log are.\n"
