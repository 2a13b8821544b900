"""The pictures of `ottla draw`, from facts to text and SVG."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.cli.drawing import Cell, Chart, Row, Tone, as_svg, as_text
from ottla.cli.drawing.assignment import draw_assignment
from ottla.cli.drawing.in_sync import Change, draw_in_sync, partition_history, read_metadata_log
from ottla.cli.drawing.segments import draw_segments, read_segments
from ottla.cli.logic.group_lag import GroupRow
from ottla.client.admin.groups import DescribedGroup, GroupMember
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.errors import CorruptRecords
from ottla.records.record import Record
from ottla.wire.messages.metadata_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from ottla.wire.metadata_codec import encode_record

ORDERS, OTHER = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")


def batch(first_offset: int, count: int) -> bytes:
    records = [Record(offset=first_offset + number, timestamp=1_000, value=b"espresso") for number in range(count)]
    return bytes(build_batch(records))


def test_segments_are_read_from_the_files_of_a_partition(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, 3) + batch(3, 2))
    # A batch that is being written is not counted.
    (tmp_path / "00000000000000000005.log").write_bytes(batch(5, 1) + batch(6, 4)[:70])
    (tmp_path / "00000000000000000005.index").write_bytes(b"")
    first, active = read_segments(tmp_path)
    assert (first.first_offset, first.last_offset, first.records, first.batches) == (0, 4, 5, 2)
    assert (active.first_offset, active.last_offset, active.records, active.batches) == (5, 5, 1, 1)
    text = as_text(draw_segments("orders-0", [first, active]), width=100).splitlines()
    assert text[0] == "orders-0: 2 segments, 6 records"
    assert "offsets 0 to 4 in 2 batches" in text[1]
    assert text[2].endswith(", active")
    assert text[1].count("▒") == 30
    assert 0 < text[2].count("█") < 30


def test_a_new_partition_has_an_empty_segment(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    assert "empty, 0 bytes, active" in as_text(draw_segments("a-0", read_segments(tmp_path)), width=100)


def test_damage_and_other_directories_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no segments"):
        read_segments(tmp_path)
    damaged = bytearray(batch(0, 1))
    damaged[8:12] = bytes(4)
    (tmp_path / "00000000000000000000.log").write_bytes(damaged)
    with pytest.raises(CorruptRecords):
        read_segments(tmp_path)


def member(name: str, *partitions: int) -> GroupMember:
    return GroupMember(
        member_id=f"{name}-id",
        instance_id=None,
        client_id=name,
        host="/127.0.0.1",
        assignment=tuple(TopicPartition("orders", partition) for partition in partitions),
    )


def row(partition: int, lag: int) -> GroupRow:
    return GroupRow("orders", partition, 0, None, lag, lag, None, None, None)


def test_an_assignment_shows_members_lag_and_partitions_without_a_member() -> None:
    group = DescribedGroup(
        group_id="readers",
        state="Stable",
        type="consumer",
        protocol_type="consumer",
        assignor="uniform",
        coordinator=1,
        members=(member("c"), member("b", 1), member("a", 0, 2)),
    )
    chart = draw_assignment(group, [row(0, 0), row(1, 7), row(2, 0), row(3, 4)])
    assert as_text(chart, width=100).splitlines() == [
        "readers: Stable, 3 members",
        "  1: a       ▒ orders-0     ▒ orders-2",
        "  2: b       ▲ orders-1 +7",
        "  3: c       · idle",
        "  no member  ▲ orders-3 +4",
        "  ▒ at the end   ▲ behind by so many records   · nothing to do",
    ]


def history() -> list[Change]:
    records = [
        (1_000, TopicRecord(name="orders", topic_id=OTHER)),
        (1_000, PartitionRecord(partition_id=0, topic_id=OTHER, replicas=[9], isr=[9], leader=9)),
        (2_000, TopicRecord(name="orders", topic_id=ORDERS)),
        (2_000, PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=[1, 2], isr=[1, 2], leader=1)),
        (2_000, PartitionRecord(partition_id=1, topic_id=ORDERS, replicas=[2, 1], isr=[2, 1], leader=2)),
        (3_000, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[2], leader=2)),
        (4_000, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[2, 1])),
        (5_000, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, replicas=[2, 3], isr=[2])),
    ]
    return partition_history(records, "orders", 0)


def test_the_history_of_a_partition_is_that_of_the_newest_topic() -> None:
    assert [(change.leader, change.replicas, change.in_sync) for change in history()] == [
        (1, (1, 2), (1, 2)),
        (2, (1, 2), (2,)),
        (2, (1, 2), (2, 1)),
        (2, (2, 3), (2,)),
    ]
    assert [line.split() for line in as_text(draw_in_sync("orders-0", history()), width=100).splitlines()[2:5]] == [
        ["broker", "1", "█", "leader", "·", "out", "▒", "in", "sync", "·", "none"],
        ["broker", "2", "▒", "in", "sync", "█", "leader", "█", "leader", "█", "leader"],
        ["broker", "3", "·", "none", "·", "none", "·", "none", "·", "out"],
    ]


def test_the_metadata_log_is_found_below_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="__cluster_metadata-0"):
        list(read_metadata_log(tmp_path))
    log = tmp_path / "node-1" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    value = bytes(encode_record(TopicRecord(name="orders", topic_id=ORDERS), 0))
    (log / "00000000000000000000.log").write_bytes(bytes(build_batch([Record(offset=0, timestamp=77, value=value)])))
    ((time, record),) = read_metadata_log(tmp_path)
    assert time == 77
    assert isinstance(record, TopicRecord)
    assert record.name == "orders"


def test_columns_that_do_not_fit_continue_below() -> None:
    cells = tuple(Cell(f"number-{number}") for number in range(5))
    chart = Chart(title="t", rows=(Row("r", cells),), columns=tuple("abcde"))
    assert max(len(line) for line in as_text(chart, width=40).splitlines()) <= 40
    assert all(f"number-{number}" in as_text(chart, width=40) for number in range(5))


@pytest.mark.parametrize("are_bars", [True, False])
def test_the_svg_is_well_formed_and_has_every_text(are_bars: bool) -> None:
    rows = (Row("<a&b>", (Cell("x < y", Tone.STRONG, 0.5),)), Row("c", (Cell("idle", Tone.ABSENT),)))
    chart = Chart(title="a & b", rows=rows, are_bars=are_bars, legend=((Tone.STRONG, "strong"),))
    picture = ElementTree.fromstring(as_svg(chart))
    texts = {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert texts == {"a & b", "<a&b>", "x < y", "c", "idle", "strong"}
    width = float(picture.attrib["width"])
    for shape in picture.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(shape.attrib.get("x", 0)) + float(shape.attrib["width"]) <= width
