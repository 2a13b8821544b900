"""How far each table is behind its topic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ottla.lake.delta import DeltaLakeTable, DeltaStore
from ottla.lake.driver import find_tables
from ottla.lake.iceberg import IcebergTable
from ottla.lake.settings import LakeSettings, TableSettings
from ottla.model.ids import TopicPartition
from ottla.spark.options import EARLIEST, Point, source_options
from ottla.spark.source.planner import Planner
from ottla.spark.tables import Position, open_catalog

__all__ = ["TableState", "table_states"]


@dataclass(frozen=True, slots=True)
class TableState:
    topic: str
    table: str
    format: str
    mode: str
    rows: int
    files: int
    snapshots: int
    lag: int
    """Offsets of the topic that the table does not have."""
    offsets: dict[str, int]
    """The next offset of each partition."""
    problem: str = ""
    """Why the topic has no valid settings; the other fields are empty then."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def table_states(settings: LakeSettings) -> list[TableState]:
    """The state of the table of each selected topic. Raises LakeError."""
    catalog = open_catalog(settings.catalog)
    tables, problems = find_tables(settings)
    states = [_state(settings, catalog, table) for table in tables.values()]
    return [*states, *(_state_without_settings(topic, str(problem)) for topic, problem in problems.items())]


def _state_without_settings(topic: str, problem: str) -> TableState:
    return TableState(
        topic, table="", format="", mode="", rows=0, files=0, snapshots=0, lag=0, offsets={}, problem=problem
    )


def _state(lake: LakeSettings, catalog: Any, settings: TableSettings) -> TableState:
    position, rows, files, snapshots = None, 0, 0, 0
    if settings.format == "delta":
        delta_table = DeltaLakeTable.find(DeltaStore(lake.catalog["warehouse"]).location(settings.identifier))
        if delta_table is not None:
            position, delta = delta_table.position(), delta_table.table
            rows, files, snapshots = delta.count(), len(delta.file_uris()), delta.version() + 1
    elif catalog.table_exists(settings.identifier):
        table = IcebergTable(catalog, settings.identifier)
        position = table.position()
        snapshots = len(table.table.snapshots())
        newest = table.table.current_snapshot()
        if newest is not None and newest.summary is not None:
            rows, files = (int(newest.summary[key] or 0) for key in ("total-records", "total-data-files"))
    return TableState(
        topic=settings.topic,
        table=".".join(settings.identifier),
        format=settings.format,
        mode=settings.mode.value,
        rows=rows,
        files=files,
        snapshots=snapshots,
        lag=_lag(lake, settings, position),
        offsets={} if position is None else {str(number): offset for number, offset in position.offsets.items()},
    )


def _lag(lake: LakeSettings, settings: TableSettings, position: Position | None) -> int:
    planner = Planner(source_options({**lake.client, "subscribe": settings.topic}, streaming=False))
    topics = planner.existing_topics()
    known = {} if position is None else position.offsets
    new = [partition for partition in topics.partitions if partition.partition not in known]
    begins = {TopicPartition(settings.topic, number): offset for number, offset in known.items()}
    begins |= planner.resolve(Point(everywhere=EARLIEST), new)
    ends = planner.latest(topics.partitions)
    return sum(max(0, end - begins[partition]) for partition, end in ends.items())
