"""`Application`: a topology that runs, as a Spark job or in threads of this process."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ottla.streams.errors import ShutdownRequestedError, StreamsError
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.control import ControlAddress, ControlServer, error_of_report
from ottla.streams.runtime.epochs import EpochHold, EpochSettings, start_epochs
from ottla.streams.runtime.identity import Instance, WorkerIdentity
from ottla.streams.runtime.metrics import MetricHistory, StreamsMetric, exposition
from ottla.streams.runtime.metrics_server import MetricsServer
from ottla.streams.runtime.prepare import Prepared, prepare, remove_surplus_members
from ottla.streams.runtime.queries import KeyQueryMetadata, Queries, StoreUnavailableError, StreamsMetadata
from ottla.streams.runtime.query_server import QueryServer
from ottla.streams.runtime.queryable import QueryableStore
from ottla.streams.runtime.restore_listener import StateRestoreListener, call_listener
from ottla.streams.runtime.shutdown import announce_shutdown
from ottla.streams.runtime.spark_job import run_on_spark, run_worker
from ottla.streams.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Application", "State", "UncaughtExceptionResponse"]

_log = logging.getLogger(__name__)


class State(Enum):
    """The states of Kafka Streams."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    PENDING_ERROR = "PENDING_ERROR"
    NOT_RUNNING = "NOT_RUNNING"
    ERROR = "ERROR"


class UncaughtExceptionResponse(Enum):
    """What follows from an error of a worker (`StreamThreadExceptionResponse` of Kafka Streams)."""

    # The worker is restarted.
    REPLACE_THREAD = "REPLACE_THREAD"
    # This instance ends; other instances take its tasks.
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    # All instances end.
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"


UncaughtExceptionHandler = Callable[[BaseException], UncaughtExceptionResponse]


_ENDED = (State.NOT_RUNNING, State.ERROR)


class Application:
    """Runs a topology until it is closed.

    `runs_on="spark"` makes every worker a task of one Spark job, on the session of this process or a new one; `master`
    is Spark's. `runs_on="threads"` needs no Spark: workers are threads of this process. With a `metrics_port`, where 0
    takes a free one, Prometheus finds the metrics there, at /metrics.
    """

    def __init__(
        self,
        topology: Topology,
        properties: Mapping[str, Any],
        *,
        runs_on: str = "spark",
        master: str | None = None,
        control_host: str = "127.0.0.1",
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
    ) -> None:
        if runs_on not in ("spark", "threads"):
            raise StreamsError(f"runs_on={runs_on!r} is not spark or threads.")
        topology.check()
        self.config = ApplicationConfig.from_properties(properties)
        self._topology = topology
        self._runs_on = runs_on
        self._master = master
        self._control_host = control_host
        self._changed = threading.Condition()
        self._state = State.CREATED
        self._failure: BaseException | None = None
        self._reports: dict[int, dict[str, Any]] = {}
        self._listener: Callable[[State, State], None] | None = None
        self._restore_listener: StateRestoreListener | None = None
        self._queries: Queries | None = None
        self._control: ControlServer | None = None
        self._context: Any = None
        self._query: Any = None
        # Only of a streaming query.
        self._hold: EpochHold | None = None
        self._query_server: QueryServer | None = None
        self._thread: threading.Thread | None = None
        self._instance: Instance | None = None
        self._handler: UncaughtExceptionHandler = lambda _: UncaughtExceptionResponse.SHUTDOWN_CLIENT
        self._asks_shutdown = False
        self._history = MetricHistory()
        self._metrics_address = (metrics_host, metrics_port)
        self._metrics_server: MetricsServer | None = None
        self._failed_workers = 0
        self._is_paused = False

    @property
    def state(self) -> State:
        return self._state

    def set_state_listener(self, listener: Callable[[State, State], None]) -> None:
        """Called with the new and the old state, from threads of the application."""
        self._listener = listener

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Called with the error of a worker that failed; without a handler this instance ends."""
        self._handler = handler

    def pause(self) -> None:
        """Workers stop reading; they keep their tasks and stay in the group. Also before `start`."""
        self._is_paused = True
        if self._control is not None:
            self._control.pause_workers()

    def resume(self) -> None:
        self._is_paused = False
        if self._control is not None:
            self._control.resume_workers()

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def set_global_state_restore_listener(self, listener: StateRestoreListener) -> None:
        """Receives the progress of restores, from threads of the application. Set it before the start."""
        self._restore_listener = listener

    def start(self) -> None:
        self._begin(self._run)

    def start_query(
        self,
        spark: SparkSession | None = None,
        *,
        epoch_seconds: float = 10.0,
        checkpoint: str | None = None,
        name: str | None = None,
    ) -> StreamingQuery:
        """Starts the application as a streaming query of Spark, whose batches are epochs, and returns the query.

        Without `spark` there is a session as with `start`. The session needs a core for every worker. `checkpoint`
        has the number of the epoch only: the progress is in the offsets of the application's group.
        """
        settings = EpochSettings(seconds=epoch_seconds, checkpoint=checkpoint, name=name)
        started: Future[StreamingQuery] = Future()
        self._begin(lambda: self._guarded(lambda: self._run_query(spark, settings, started)))
        return started.result()

    def _begin(self, run: Callable[[], None]) -> None:
        if self._state is not State.CREATED:
            raise StreamsError(f"The application is {self._state.value}; an application starts once.")
        host, port = self._metrics_address
        if port is not None:
            self._metrics_server = MetricsServer(self.metrics_text, host, port)
        self._set_state(State.REBALANCING)
        self._thread = threading.Thread(target=run, name=f"streams-{self.config.application_id}", daemon=True)
        self._thread.start()

    def statistics(self) -> dict[int, dict[str, Any]]:
        """The last report of every worker: records, commits, restored records, state."""
        with self._changed:
            return {number: dict(report) for number, report in sorted(self._reports.items())}

    # Interactive queries.

    def store(
        self,
        name: str,
        *,
        stale: bool = False,
        partition: int | None = None,
        bound: Mapping[str, Mapping[int, int]] | None = None,
    ) -> QueryableStore:
        """Reads a store of all instances. `stale`: standby copies may answer; `bound`: a position to have reached."""
        return QueryableStore(self._known_queries(), name, stale=stale, partition=partition, bound=bound)

    def query_metadata_for_key(self, store: str, key: Any) -> KeyQueryMetadata:
        """Which instances have a key."""
        queries = self._known_queries()
        serde, _, topic = queries.serdes(store)
        return queries.metadata_of(store, serde.serialize(topic, key))

    def metadata_for_all_streams_clients(self) -> list[StreamsMetadata]:
        """Which instance has which partitions of which stores."""
        return self._known_queries().all_metadata()

    all_metadata = metadata_for_all_streams_clients

    def _known_queries(self) -> Queries:
        if self._queries is None or self._state in _ENDED:
            raise StoreUnavailableError(f"The application is {self._state.value}; stores can be read while it runs.")
        return self._queries

    # Metrics.

    def metrics(self) -> list[StreamsMetric]:
        """All metrics under Kafka Streams' names, from the last reports of the workers."""
        with self._changed:
            return self._history.metrics(self.config.client.client_id, self._state.value, self._failed_workers)

    def metrics_text(self) -> str:
        """The metrics in the text format of Prometheus."""
        return exposition(self.metrics())

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics, after `start`."""
        return None if self._metrics_server is None else self._metrics_server.port

    def wait_running(self, timeout: float | None = None) -> None:
        """Waits until all workers process records. Raises StreamsError if the application ends instead."""
        with self._changed:
            waiting = (State.CREATED, State.REBALANCING, State.PENDING_ERROR)
            if not self._changed.wait_for(lambda: self._state not in waiting, timeout):
                raise StreamsError(f"The application is still {self._state.value} after {timeout} s.")
        self._raise_failure()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end; True if it came. Raises the failure of the application."""
        with self._changed:
            ended = self._changed.wait_for(lambda: self._state in _ENDED, timeout)
        self._raise_failure()
        return ended

    def close(self, timeout: float | None = 60.0, *, leave_group: bool = True) -> bool:
        """Lets workers commit and stop; after the time-out their Spark tasks are cancelled. True if all stopped.

        With `leave_group=False` the group keeps their tasks for them until `session.timeout.ms`: a restart of this
        instance moves no task.
        """
        if self._state in (State.CREATED, *_ENDED):
            return True
        if not self._set_state(State.PENDING_SHUTDOWN, unless=_ENDED):
            return True
        if self._control is not None:
            self._control.stop_workers(leave_group=leave_group)
        assert self._thread is not None
        if self._query is not None:
            self._stop_query(timeout)
        self._thread.join(timeout)
        stopped = not self._thread.is_alive()
        if not stopped and self._context is not None:
            self._context.cancelJobGroup(self._group)
        return stopped

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Internals.

    def _stop_query(self, timeout: float | None) -> None:
        """Workers of the running epoch commit first, because the query would begin another epoch."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._state in _ENDED or all(report["state"] == "stopped" for report in self._reports.values()),
                timeout,
            )
        self._query.stop()

    @property
    def _group(self) -> str:
        return f"streams-{self.config.application_id}"

    def _run(self) -> None:
        self._guarded(self._run_workers)

    def _run_workers(self) -> None:
        prepared = self._open()
        if self._state is State.PENDING_SHUTDOWN:
            return
        results = self._on_threads(prepared) if self._runs_on == "threads" else self._on_spark(prepared)
        if any(result["state"] == "fenced" for result in results):
            raise StreamsError(
                f"Another instance of {self.config.application_id} has the same group.instance.id, or a copy of "
                "the same state directory; every instance needs its own."
            )
        if self._asks_shutdown:
            asyncio.run(announce_shutdown(self.config, prepared.plan, self._identities()[0]))

    def _run_query(self, spark: Any, settings: EpochSettings, started: Future[Any]) -> None:
        try:
            prepared = self._open()
            assert self._control is not None
            self._hold = EpochHold(self._control)
            spark = spark or self._session(4)
            query = start_epochs(spark, prepared, self.config, self._address, self._identities(), settings)
        except BaseException as error:
            started.set_exception(error)
            raise
        self._query = query
        started.set_result(query)
        query.awaitTermination()
        if self._asks_shutdown:
            asyncio.run(announce_shutdown(self.config, prepared.plan, self._identities()[0]))

    def _open(self) -> Prepared:
        """Creates topics, takes a place in the state directory, and starts the servers of the application."""
        prepared = asyncio.run(prepare(self._topology, self.config))
        self._instance = Instance(Path(self.config.state_directory), self.config.application_id)
        asyncio.run(remove_surplus_members(self.config, self._instance.process_id))
        self._control = ControlServer(self._on_report, self._control_host)
        self._queries = Queries(
            self._topology,
            prepared.plan,
            self.config.tasks,
            self._control.address.token,
            self.statistics,
            self.config.server,
            self.config.access,
        )
        if self.config.server:
            host, _, port = self.config.server.rpartition(":")
            self._query_server = QueryServer(self._queries, host, int(port), self.config.access)
        if self._is_paused:
            self._control.pause_workers()
        return prepared

    def _guarded(self, run: Callable[[], None]) -> None:
        """Runs the application to its end, and closes its servers."""
        try:
            run()
        except BaseException as error:  # noqa: BLE001
            if self._state is not State.PENDING_SHUTDOWN and self._failure is None:
                self._failure = error
        finally:
            for service in (self._query_server, self._control, self._instance, self._metrics_server):
                if service is not None:
                    service.close()
            self._set_state(State.NOT_RUNNING if self._failure is None else State.ERROR)

    def _identities(self) -> list[WorkerIdentity]:
        assert self._instance is not None
        return [
            WorkerIdentity(
                application_id=self.config.application_id,
                process_id=self._instance.process_id,
                number=number,
                instance_name=self.config.instance_name,
                directory=str(self._instance.directory),
            )
            for number in range(self.config.workers)
        ]

    def _on_spark(self, prepared: Prepared) -> list[dict[str, Any]]:
        # Failures of tasks add up over a long job.
        self._context = self._session(1000).sparkContext
        return run_on_spark(self._context, prepared, self.config, self._address, self._identities(), group=self._group)

    def _session(self, attempts: int) -> Any:
        from ottla.spark.sessions import session

        # Every worker needs a core of its own.
        master = self._master or f"local[{self.config.workers},{attempts}]"
        return session(self.config.application_id, master=master)

    @property
    def _address(self) -> ControlAddress:
        assert self._control is not None
        return self._control.address

    def _on_threads(self, prepared: Prepared) -> list[dict[str, Any]]:
        assert self._control is not None
        address, results, failures = self._control.address, [], []

        def work(identity: WorkerIdentity) -> None:
            try:
                results.append(run_worker(prepared, self.config, address, identity))
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
                assert self._control is not None
                self._control.stop_workers()

        threads = [threading.Thread(target=work, args=(identity,), daemon=True) for identity in self._identities()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return results

    def _on_report(self, report: dict[str, Any]) -> str | None:
        if "restore" in report:
            if self._restore_listener is not None:
                call_listener(self._restore_listener, report["restore"])
            return None
        if self._hold is not None:
            self._hold.on_report(report)
        if "epoch" in report:
            return None
        if report["state"] == "failed":
            return self._on_failure(report)
        with self._changed:
            self._reports[report["worker"]] = report
            self._changed.notify_all()
            self._history.add(report)
            all_run = len(self._reports) == self.config.workers and all(
                last_report["state"] == "running" for last_report in self._reports.values()
            )
        other_states = set(State) - {State.REBALANCING, State.RUNNING}
        self._set_state(State.RUNNING if all_run else State.REBALANCING, unless=other_states)
        return None

    def _on_failure(self, report: dict[str, Any]) -> str:
        """The order for a worker that failed."""
        self._failed_workers += 1
        error = error_of_report(report)
        response = UncaughtExceptionResponse.SHUTDOWN_CLIENT
        if not isinstance(error, ShutdownRequestedError):
            try:
                response = self._handler(error)
            except Exception as failure:  # noqa: BLE001
                error = failure
        _log.error("Worker %s has failed (%s): %r", report["worker"], response.value, error, exc_info=error)
        if response is UncaughtExceptionResponse.REPLACE_THREAD:
            return "replace"
        if self._state is not State.PENDING_SHUTDOWN:
            self._failure = self._failure or error
            self._asks_shutdown = self._asks_shutdown or response is UncaughtExceptionResponse.SHUTDOWN_APPLICATION
            self._set_state(State.PENDING_ERROR, unless=(State.PENDING_SHUTDOWN, *_ENDED))
        assert self._control is not None
        self._control.end_failed(repr(error))
        return "end"

    def _set_state(self, state: State, *, unless: Collection[State] = ()) -> bool:
        """False if the application is in one of the states that `unless` names: threads of all workers call this."""
        with self._changed:
            if self._state in unless:
                return False
            before, self._state = self._state, state
            self._changed.notify_all()
        if self._listener is not None and before is not state:
            try:
                self._listener(state, before)
            except Exception:  # noqa: BLE001
                # The listener may be called before an order to a worker, which must not be lost.
                _log.exception("The state listener of %s has failed.", self.config.application_id)
        return True

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
