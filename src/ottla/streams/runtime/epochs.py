"""An application as a streaming query of Spark: a micro-batch is an epoch, in which every worker runs for some seconds.

The query has the driver's part: it plans epochs, restarts tasks, shows progress, and can be listened to and stopped.
Exactly-once does not depend on it. Offsets, changelogs and results are in Kafka's transactions, as always, so an epoch
that Spark repeats continues from the last commit. Between two epochs workers stay members of the group.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import StreamsError
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.control import Control, ControlAddress, ControlServer
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.prepare import Prepared
from ottla.streams.runtime.spark_job import run_in_loop, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Epoch", "EpochHold", "EpochSettings", "end_of_epoch", "start_epochs"]

_SCHEMA = "epoch bigint, worker int, records bigint, commits bigint, restored bigint, tasks int"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSettings:
    seconds: float
    # Spark's checkpoint has the number of the epoch only; None: Spark makes a temporary one.
    checkpoint: str | None
    name: str | None


class Epoch:
    """A `WorkerControl` with an end. A worker whose epoch is over stays in its group: it is back soon.

    The time of an epoch begins when the tasks of all workers run: to join a group and to restore stores may take longer
    than an epoch, and would start over in every epoch. A worker whose tasks run continues until all workers are ready.
    """

    def __init__(self, control: Control, seconds: float) -> None:
        self._control = control
        self._seconds = seconds
        # When the tasks of this worker ran for the first time.
        self._begun: float | None = None

    @property
    def is_stopped(self) -> bool:
        control = self._control
        if control.is_stopped:
            return True
        if self._begun is None or control.is_held:
            return False
        return asyncio.get_running_loop().time() >= max(self._begun, control.released_at) + self._seconds

    @property
    def is_paused(self) -> bool:
        return self._control.is_paused

    @property
    def leaves_group(self) -> bool:
        return self._control.is_stopped and self._control.leaves_group

    def report(self, content: dict[str, Any]) -> None:
        if content.get("state") == "running" and self._begun is None:
            self._begun = asyncio.get_running_loop().time()
        # The end is reported after the worker has left its group: the application may stop its process then.
        if content.get("state") != "stopped":
            self._control.report(content)


class EpochHold:
    """Part of the application: holds the epoch while a worker joins the group or restores stores.

    The next epoch begins when all workers have ended this one. Workers that ended earlier would leave their tasks idle.
    """

    def __init__(self, control: ControlServer) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._restoring: set[int] = set()

    def on_report(self, report: dict[str, Any]) -> None:
        """Called from threads of the control server."""
        with self._lock:
            was_held = bool(self._restoring)
            if report.get("state") == "rebalancing":
                self._restoring.add(report["worker"])
            else:
                # Its tasks run, or its epoch has ended: the hold may have come too late for it.
                self._restoring.discard(report["worker"])
            if self._restoring and not was_held:
                self._control.hold_epoch()
            elif was_held and not self._restoring:
                self._control.release_epoch()


def end_of_epoch(worker: int) -> dict[str, Any]:
    """The last report of a worker in an epoch. It has no state: the worker is back soon."""
    return {"worker": worker, "epoch": "ended"}


def run_epoch(
    prepared: Prepared,
    config: ApplicationConfig,
    address: ControlAddress,
    identity: WorkerIdentity,
    seconds: float,
) -> dict[str, Any]:
    """One worker, for one epoch. Raises StreamsError if it or its application has failed."""

    async def run() -> dict[str, Any]:
        control = Control(address)
        await control.open()
        try:
            outcome = await work(prepared, config, address, identity, control, Epoch(control, seconds))
            if outcome["state"] == "fenced":
                raise StreamsError(f"Another instance of {config.application_id} has the identity of this one.")
            if outcome["state"] == "failed" or control.failure is not None:
                raise StreamsError(f"{config.application_id} has failed: {control.failure}")
            if control.is_stopped:
                control.report(outcome)
                # The application stops the query, or is gone.
                await control.wait_closed()
            else:
                control.report(end_of_epoch(identity.number))
            return outcome
        finally:
            await control.close()

    return run_in_loop(run())


def start_epochs(
    spark: SparkSession,
    prepared: Prepared,
    config: ApplicationConfig,
    address: ControlAddress,
    identities: list[WorkerIdentity],
    settings: EpochSettings,
) -> StreamingQuery:
    from pyspark.sql import functions

    from ottla.spark.sessions import start

    source = _source(prepared, config, address, identities, settings.seconds)
    spark.dataSource.register(source)
    rows = spark.readStream.format(source.name()).load()
    figures = ("records", "commits", "restored")
    observed = rows.observe("streams", *(functions.sum(name).alias(name) for name in figures))
    writer = observed.writeStream.format("noop").queryName(settings.name or config.application_id)
    if settings.checkpoint is not None:
        writer = writer.option("checkpointLocation", settings.checkpoint)
    return start(writer)


def _source(
    prepared: Prepared,
    config: ApplicationConfig,
    address: ControlAddress,
    identities: list[WorkerIdentity],
    seconds: float,
) -> Any:
    """A data source with a partition for every worker. Spark sends the class, with its closure, to its workers."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Reader(DataSourceStreamReader):
        def __init__(self) -> None:
            self._epoch = 0

        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"epoch": 0}

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802, ARG002
            return {"epoch": start["epoch"] + 1}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
            return [InputPartition((end["epoch"], number)) for number in range(len(identities))]

        def read(self, partition: InputPartition) -> Iterator[tuple[int, ...]]:
            epoch, number = partition.value
            outcome = run_epoch(prepared, config, address, identities[number], seconds)
            yield epoch, number, outcome["records"], outcome["commits"], outcome["restored"], len(outcome["tasks"])

        def commit(self, end: dict[str, int]) -> None:
            pass

    class Epochs(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"ottla-streams-{config.application_id}"

        def schema(self) -> str:
            return _SCHEMA

        def streamReader(self, schema: Any) -> Reader:  # noqa: N802, ARG002
            return Reader()

    return Epochs
