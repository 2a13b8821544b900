"""The segments of a partition's directory, one bar for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ottla.cli.drawing.chart import Cell, Chart, Row, Tone
from ottla.records.errors import CorruptRecords
from ottla.records.header import HEADER_SIZE, LENGTH_OVERHEAD, read_header

__all__ = ["Segment", "draw_segments", "read_segments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One `.log` file. `records` counts what is in the file: compaction leaves fewer than there are offsets."""

    file: str
    first_offset: int
    last_offset: int | None
    records: int
    batches: int
    size: int


def read_segments(directory: Path) -> list[Segment]:
    """Raises ValueError for a directory without segments, and CorruptRecords for a damaged file."""
    paths = sorted(path for path in directory.glob("*.log") if path.stem.isdecimal())
    if not paths:
        raise ValueError(f"{directory} has no segments: name the directory of a partition, such as data/orders-0.")
    return [_read_segment(path) for path in paths]


def _read_segment(path: Path) -> Segment:
    """Reads the header of each batch only: segments are large. A batch that is being written is left out."""
    size = path.stat().st_size
    last, records, batches, position = None, 0, 0, 0
    with path.open("rb") as file:
        while size - position >= HEADER_SIZE:
            file.seek(position)
            header = read_header(file.read(HEADER_SIZE))
            if header.size <= LENGTH_OVERHEAD:
                raise CorruptRecords(f"{path.name} has an invalid length at position {position}")
            position += header.size
            if position > size:
                break
            last = header.last_offset
            records += header.record_count
            batches += 1
    return Segment(
        file=path.name, first_offset=int(path.stem), last_offset=last, records=records, batches=batches, size=size
    )


def draw_segments(name: str, segments: list[Segment]) -> Chart:
    """The last segment is the active one: appends go to it, and retention never deletes it."""
    largest = max(segment.size for segment in segments)
    records = sum(segment.records for segment in segments)
    rows = []
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        offsets = "empty"
        if segment.last_offset is not None:
            batches = f"{segment.batches} batch" + ("" if segment.batches == 1 else "es")
            offsets = f"offsets {segment.first_offset} to {segment.last_offset} in {batches}"
        caption = f"{offsets}, {_bytes(segment.size)}" + (", active" if is_active else "")
        tone = Tone.STRONG if is_active else Tone.NORMAL
        rows.append(Row(segment.file, (Cell(caption, tone, segment.size / largest if largest else 0.0),)))
    count = f"{len(segments)} segment" + ("" if len(segments) == 1 else "s")
    return Chart(title=f"{name}: {count}, {records:,} records", rows=tuple(rows), are_bars=True)


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
