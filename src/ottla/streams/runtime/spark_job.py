"""Runs the workers of an application as one long Spark job: a task for each worker, restarted if it fails."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.streams.disk import is_available
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.control import Control, ControlAddress, WorkerControl
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.prepare import Prepared
from ottla.streams.runtime.query_door import QueryDoor
from ottla.streams.runtime.worker import Worker

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["run_in_loop", "run_on_spark", "run_worker", "work"]

_log = logging.getLogger(__name__)


def run_worker(
    prepared: Prepared, config: ApplicationConfig, address: ControlAddress, identity: WorkerIdentity
) -> dict[str, Any]:
    """Runs one worker to its end, in an event loop of its own."""

    async def run() -> dict[str, Any]:
        control = Control(address)
        await control.open()
        try:
            return await work(prepared, config, address, identity, control, control)
        finally:
            await control.close()

    return run_in_loop(run())


async def work(
    prepared: Prepared,
    config: ApplicationConfig,
    address: ControlAddress,
    identity: WorkerIdentity,
    control: Control,
    orders: WorkerControl,
) -> dict[str, Any]:
    """Runs a worker until its `orders` end it. After a failure the application decides over `control`."""
    while True:
        states = local_states(prepared, config, identity)
        worker = Worker(prepared.topology, config, prepared.plan, identity, states)
        door = QueryDoor(worker, _own_host(address.host), address.token)
        try:
            worker.reports.facts["queries"] = await door.open()
            return await worker.run(orders)
        except Exception as error:  # noqa: BLE001
            if not await control.is_to_begin_again(identity.number, error):
                return {**worker.reports.content(), "state": "failed"}
        finally:
            await door.close()


def run_in_loop(coroutine: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(coroutine)


def _own_host(control_host: str) -> str:
    """Where the application reaches this worker: on its own machine, or by name if workers are elsewhere."""
    return control_host if control_host.startswith("127.") or control_host == "localhost" else socket.gethostname()


def local_states(prepared: Prepared, config: ApplicationConfig, identity: WorkerIdentity) -> LocalStates:
    """The state of a worker: below the directory of its instance, separate for every cluster."""
    directory = Path(identity.directory) / prepared.cluster_id if identity.directory else None
    if directory is not None and not is_available():
        _log.warning("lmdb is not installed: all stores are in memory, and restored from their changelogs.")
        directory = None
    return LocalStates(
        directory,
        prepared.topic_ids,
        persists=config.persists_stores,
        memory_bytes=config.state_memory_bytes,
        cleanup_delay_ms=config.cleanup_delay_ms,
    )


def run_on_spark(
    context: SparkContext,
    prepared: Prepared,
    config: ApplicationConfig,
    address: ControlAddress,
    identities: list[WorkerIdentity],
    *,
    group: str,
) -> list[dict[str, Any]]:
    """Returns when all workers have ended. `group` is the job group by which the job can be cancelled."""
    context.setJobGroup(group, f"streams application {config.application_id}", interruptOnCancel=True)

    def run(index: int, _: Iterable[int]) -> Iterator[dict[str, Any]]:
        yield run_worker(prepared, config, address, identities[index])

    numbers = context.parallelize(range(len(identities)), len(identities))
    results: list[dict[str, Any]] = numbers.mapPartitionsWithIndex(run).collect()
    return results


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
