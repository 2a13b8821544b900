"""Lines of files: positions, files that are cut or replaced, and batches that come twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.api import ConnectError, ReadLimit, SourceOffset
from ottla.connect.plugins.connectors.file import LineReader, LineWriter

PARTITION: Mapping[str, Any] = {"filename": "x"}


def lines(reader: LineReader, start: SourceOffset | None, end: SourceOffset | None) -> list[str]:
    if end is None or end == start:
        return []
    return [line for batch in reader.read(PARTITION, start, end) for line in batch.column("value").to_pylist()]


def step(
    reader: LineReader, start: SourceOffset | None, limit: ReadLimit | None = None
) -> tuple[SourceOffset | None, list[str]]:
    end = reader.latest(PARTITION, start, limit or ReadLimit())
    return end, lines(reader, start, end)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.txt"


def test_only_whole_lines_are_records(path: Path) -> None:
    path.write_bytes("one\ntwo\r\nthrée\n\nunfin".encode())
    reader = LineReader(path)
    offset, values = step(reader, None)
    assert values == ["one", "two", "thrée", ""]
    assert offset is not None
    assert offset["position"] == 17
    assert step(reader, offset) == (offset, [])
    with path.open("a") as file:
        file.write("ished\n")
    assert step(reader, offset)[1] == ["unfinished"]


def test_a_file_that_is_not_there_yet_is_waited_for(path: Path) -> None:
    reader = LineReader(path)
    assert reader.latest(PARTITION, None, ReadLimit()) is None
    path.write_text("a\n")
    assert step(reader, None)[1] == ["a"]


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    reader = LineReader(path / "later")
    assert reader.waits_for() == f"the file {path / 'later'} does not exist"
    assert LineReader(path.parent).waits_for() is None


def test_limits_of_records_and_bytes(path: Path) -> None:
    path.write_text("".join(f"{number:03d}\n" for number in range(100)))
    reader = LineReader(path)
    offset, values = step(reader, None, ReadLimit(records=7))
    assert values == [f"{number:03d}" for number in range(7)]
    offset, values = step(reader, offset, ReadLimit(bytes=10))
    assert values == ["007", "008"]
    # A line that is longer than the limit is still read: never nothing because of a limit.
    assert step(reader, offset, ReadLimit(bytes=1))[1] == ["009"]
    assert step(LineReader(path, batch_size=3), None)[1] == ["000", "001", "002"]


def test_any_range_can_be_read_again(path: Path) -> None:
    path.write_text("a\nb\nc\nd\n")
    reader = LineReader(path)
    first, _ = step(reader, None, ReadLimit(records=2))
    second, values = step(reader, first)
    path.write_text(path.read_text() + "e\n")
    assert lines(LineReader(path), first, second) == values == ["c", "d"]


def test_a_file_that_was_cut_is_read_from_its_beginning(path: Path) -> None:
    path.write_text("a\nb\nc\n")
    reader = LineReader(path)
    offset, _ = step(reader, None)
    path.write_text("x\n")
    assert step(reader, offset)[1] == ["x"]


def test_a_file_of_equal_size_with_another_beginning_is_another_file(path: Path) -> None:
    path.write_text("a\nb\n")
    reader = LineReader(path)
    offset, _ = step(reader, None)
    path.write_text("c\nd\ne\n")
    assert step(reader, offset)[1] == ["c", "d", "e"]


def test_rotation_loses_and_repeats_nothing(path: Path) -> None:
    path.write_text("a\nb\n")
    reader = LineReader(path)
    offset, values = step(reader, None)
    with path.open("a") as file:
        file.write("late\n")
    path.rename(path.with_name("lines.txt.1"))
    path.write_text("new\n")
    while True:
        after, more = step(reader, offset)
        if after == offset:
            break
        values += more
        offset = after
    assert values == ["a", "b", "late", "new"]


def test_a_range_of_a_file_that_is_gone_is_an_error_not_silence(path: Path) -> None:
    path.write_text("a\nb\n")
    reader = LineReader(path)
    offset, _ = step(reader, None)
    assert offset is not None
    path.unlink()
    with pytest.raises(ConnectError):
        lines(reader, None, offset)


def test_offsets_that_a_person_set_have_only_a_position(path: Path) -> None:
    path.write_text("a\nb\nc\n")
    assert step(LineReader(path), {"position": 2})[1] == ["b", "c"]


def test_bytes_that_are_no_text_do_not_stop_the_source(path: Path) -> None:
    path.write_bytes(b"ok\n\xff\xfe\nok\n")
    values = step(LineReader(path), None)[1]
    assert (values[0], values[2], len(values)) == ("ok", "ok", 3)


def test_a_batch_that_comes_again_replaces_what_it_left(path: Path) -> None:
    writer = LineWriter(path)
    writer.append(["a", "b"], "batch-0")
    writer.append(["c"], "batch-1")
    # The process was killed in the middle of writing batch 2.
    with path.open("a") as file:
        file.write("")
    writer.append(["d", "e"], "batch-2")
    with path.open("r+") as file:
        file.truncate(len("a\nb\nc\nd"))
    LineWriter(path).append(["d", "e"], "batch-2")
    LineWriter(path).append(["d", "e"], "batch-2")
    LineWriter(path).append(["f"], "batch-3")
    assert path.read_text() == "a\nb\nc\nd\ne\nf\n"


def test_without_its_note_a_batch_would_be_there_twice(path: Path) -> None:
    """The control: it is the note beside the file that keeps lines from coming twice."""
    LineWriter(path).append(["a"], "batch-0")
    path.with_name(path.name + ".batch").unlink()
    LineWriter(path).append(["a"], "batch-0")
    assert path.read_text() == "a\na\n"


def test_what_was_in_the_file_before_stays(path: Path) -> None:
    path.write_text("before\n")
    LineWriter(path).append(["a"], "b0")
    LineWriter(path).append(["a"], "b0")
    assert path.read_text() == "before\na\n"


def test_texts_become_lines_without_being_touched_one_by_one() -> None:
    import pyarrow

    from ottla.connect.plugins.connectors.file import _as_lines

    texts = pyarrow.array(["a", "", "ü", "long" * 100])
    assert bytes(_as_lines(texts)).decode() == "a\n\nü\n" + "long" * 100 + "\n"
    assert bytes(_as_lines(texts.slice(2))).decode() == "ü\n" + "long" * 100 + "\n"
    assert bytes(_as_lines(texts.slice(4))) == b""
