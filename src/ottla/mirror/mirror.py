"""Runs all flows of a properties file: their drivers here, their workers on Spark or in threads."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ottla.client.errors import ClientError
from ottla.mirror.copying.workers import copy_forever, run_on_spark
from ottla.mirror.flow import FlowDriver, FlowLag
from ottla.mirror.settings import FlowSettings, MirrorError, MirrorSettings
from ottla.mirror.state import FlowEnded
from ottla.model.errors import KafkaError

__all__ = ["Mirror"]

logger = logging.getLogger("ottla.mirror")

_START_PAUSE_SECONDS = 2.0
_STOP_PAUSE_SECONDS = 0.5
# Failures of a task add up over a job, which runs for years: Spark's limit of four would end the mirror.
_FAILURES_MAX = 1_000_000
_SETTINGS = {"spark.task.maxFailures": str(_FAILURES_MAX)}


class Mirror:
    """`runs_on="spark"` makes each worker a task of a Spark job; `"threads"` needs no Spark."""

    def __init__(self, settings: MirrorSettings, *, runs_on: str = "spark", master: str | None = None) -> None:
        if runs_on not in ("spark", "threads"):
            raise MirrorError(f"runs_on={runs_on!r} is not spark or threads.")
        self.settings = settings
        self._runs_on = runs_on
        self._master = master
        self._stopping = threading.Event()
        self._context: Any = None
        # A thread for each worker on Spark; it waits for the worker's job.
        self._workers = sum(flow.tasks for flow in settings.flows)
        self._threads = ThreadPoolExecutor(self._workers, "mirror")
        self._jobs: list[Future[None]] = []
        self._starting = threading.Lock()
        self.drivers = [FlowDriver(flow) for flow in settings.flows]

    def stop(self) -> None:
        """Ends `run`. May be called from any thread and from signal handlers."""
        self._stopping.set()

    async def run(self, on_ready: Callable[[], None] | None = None) -> None:
        """Copies until `stop`. Raises MirrorError if a flow cannot run."""
        try:
            ended: list[FlowEnded] = []
            started = []
            for driver in self.drivers:
                try:
                    await self._start(driver)
                    started.append(driver)
                except FlowEnded as error:
                    self._on_ended(driver, error, ended)
            if on_ready is not None:
                on_ready()
            async with asyncio.TaskGroup() as tasks:
                flows = [tasks.create_task(self._copy(driver, ended)) for driver in started]
                while not self._stopping.is_set():
                    await asyncio.sleep(0.1)
                while not all(task.done() for task in flows):
                    # Repeatedly: a job may begin a moment after the stop.
                    self._cancel_jobs()
                    await asyncio.wait(flows, timeout=_STOP_PAUSE_SECONDS)
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            self._stopping.set()
            while not all(job.done() for job in self._jobs):
                self._cancel_jobs()
                await asyncio.sleep(_STOP_PAUSE_SECONDS)
            await asyncio.gather(*[driver.close() for driver in self.drivers])

    async def lags(self) -> dict[str, FlowLag]:
        return {driver.flow.name: await driver.lag() for driver in self.drivers}

    async def _start(self, driver: FlowDriver) -> None:
        """Starts a driver, and waits for its clusters: a mirror may start before they can be reached."""
        while not self._stopping.is_set():
            try:
                await driver.start()
            except (KafkaError, ClientError) as error:
                logger.warning("%s: %s", driver.flow.name, error)
                await asyncio.sleep(_START_PAUSE_SECONDS)
            else:
                return

    async def _copy(self, driver: FlowDriver, ended: list[FlowEnded]) -> None:
        """Runs driver and workers of a flow until the mirror stops or the flow belongs to another run."""
        leading = asyncio.ensure_future(driver.run())
        working = asyncio.ensure_future(self._work(driver))
        try:
            await asyncio.wait([leading, working], return_when=asyncio.FIRST_COMPLETED)
            for task in (leading, working):
                if task.done():
                    task.result()
        except BaseException as error:
            cause = _first(error)
            if not isinstance(cause, FlowEnded):
                raise
            self._on_ended(driver, cause, ended)
        finally:
            for task in (leading, working):
                task.cancel()
            await asyncio.gather(leading, working, return_exceptions=True)

    def _on_ended(self, driver: FlowDriver, error: FlowEnded, ended: list[FlowEnded]) -> None:
        """The other flows of the file continue; after the end of the last flow the mirror ends with the reason."""
        logger.warning("%s", error)
        ended.append(error)
        if self._context is not None:
            self._context.cancelJobGroup(_job_group(driver.flow))
        if len(ended) == len(self.drivers):
            raise error

    async def _work(self, driver: FlowDriver) -> None:
        flow, run_id = driver.flow, driver.run_id
        if self._runs_on == "spark":
            jobs = [self._threads.submit(self._work_on_spark, flow, number, run_id) for number in range(flow.tasks)]
            self._jobs += jobs
            await asyncio.gather(*[asyncio.wrap_future(job) for job in jobs])
            return
        await asyncio.gather(
            *[copy_forever(flow, number, self._stopping.is_set, run_id) for number in range(flow.tasks)]
        )

    def _cancel_jobs(self) -> None:
        if self._context is not None:
            for driver in self.drivers:
                self._context.cancelJobGroup(_job_group(driver.flow))

    def _work_on_spark(self, flow: FlowSettings, number: int, run_id: str) -> None:
        from ottla.spark.sessions import session

        with self._starting:
            if self._context is None and not self._stopping.is_set():
                # Every worker needs a core of its own.
                spark = session(
                    "ottla-mirror", master=self._master or f"local[{self._workers},{_FAILURES_MAX}]", settings=_SETTINGS
                )
                self._context = spark.sparkContext
        if self._stopping.is_set():
            return
        try:
            run_on_spark(self._context, flow, number, _job_group(flow), run_id)
        except Exception:
            # A cancelled job ends with an exception of Spark.
            if not self._stopping.is_set():
                raise


def _first(error: BaseException) -> BaseException:
    """The exception that ended the group: the others are its consequences."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _job_group(flow: FlowSettings) -> str:
    return f"mirror-{flow.source}-{flow.target}"
