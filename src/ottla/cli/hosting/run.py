"""Runs the host of a properties file until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Callable
from typing import Any

from ottla.cli.hosting.control import ControlSocket, socket_path
from ottla.cli.hosting.endpoint import HTTPS, HostEndpoint, read_page
from ottla.cli.hosting.machine import Machine
from ottla.cli.hosting.plan import METRICS, PLANNED_KEYS, HostError, HostPlan, host_plan
from ottla.cli.hosting.unit import tell_systemd
from ottla.cli.node import keep_files_private
from ottla.host.files import OsFiles
from ottla.host.references import own_config, resolve_own_file
from ottla.model.config import ConfigError, decode_properties, parse_properties
from ottla.model.config.references import ReferenceFailed
from ottla.model.ports import DirectoryLocked

__all__ = ["read_plan", "run_host"]

logger = logging.getLogger("ottla.cli.hosting")


def read_plan(config_file: str) -> HostPlan:
    """The plan of a file for this machine. Raises HostError, also for settings that a node would refuse."""
    try:
        with open(config_file, "rb") as file:
            properties = parse_properties(decode_properties(file.read()))
    except OSError as error:
        raise HostError(f"Cannot read {config_file}: {error.strerror}.") from None
    except ValueError as error:
        raise HostError(f"{config_file}: {error}") from None
    try:
        resolved = resolve_own_file(properties).properties
    except ReferenceFailed as error:
        raise HostError(f"{config_file}: {error}") from None
    properties |= {key: resolved[key] for key in PLANNED_KEYS if key in properties}
    plan = host_plan(properties, sorted(os.sched_getaffinity(0)))
    try:
        own_config(plan.nodes[0].properties)
    except ConfigError as error:
        raise HostError(f"{config_file}: {error.message}") from None
    return plan


async def run_host(config_file: str, on_ready: Callable[[str, str], object]) -> None:
    """`on_ready` receives the addresses for clients and the URL of the metrics. Raises HostError."""
    plan = read_plan(config_file)
    keep_files_private()
    _allow_descriptors()
    directory = _directory(plan)
    lock = _lock(directory)
    stopped, reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    machine = Machine(plan, directory, read_page=read_page)
    endpoint = HostEndpoint(machine)
    control = ControlSocket(_handlers(config_file, machine))
    try:
        await control.open(socket_path(config_file))
        url = await _open(endpoint, plan)
        starting = asyncio.create_task(machine.start())
        await _first(starting, stopped)
        if starting.done():
            starting.result()
            on_ready(",".join(node.addresses for node in machine.nodes), url)
            tell_systemd("READY=1")
            await _serve(config_file, machine, stopped, reload)
        else:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
    finally:
        tell_systemd("STOPPING=1")
        await machine.stop()
        await endpoint.close()
        await control.close()
        lock.release()


async def _serve(config_file: str, machine: Machine, stopped: asyncio.Event, reload: asyncio.Event) -> None:
    """Serves until the host is stopped. SIGHUP reloads the file."""
    while True:
        hearing = asyncio.create_task(reload.wait())
        await _first(hearing, stopped)
        if stopped.is_set():
            hearing.cancel()
            return
        reload.clear()
        reloading = asyncio.create_task(_reload(config_file, machine))
        await _first(reloading, stopped)
        if not reloading.done():
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            return
        try:
            reloading.result()
        except HostError as error:
            logger.error("%s: %s", config_file, error)


async def _reload(config_file: str, machine: Machine) -> None:
    plan = read_plan(config_file)
    await machine.scale(plan)
    await machine.restart(plan)


def _handlers(config_file: str, machine: Machine) -> dict[str, Any]:
    async def status() -> list[dict[str, Any]]:
        return machine.status()

    async def restart() -> list[dict[str, Any]]:
        await machine.restart()
        return machine.status()

    async def reload() -> list[dict[str, Any]]:
        await _reload(config_file, machine)
        return machine.status()

    return {"status": status, "restart": restart, "reload": reload}


async def _first(task: asyncio.Task[Any], stopped: asyncio.Event) -> None:
    """Returns when the task is done or the host is stopped."""
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()


async def _open(endpoint: HostEndpoint, plan: HostPlan) -> str:
    address = plan.metrics_listener
    try:
        if not address.lower().startswith(HTTPS):
            return await endpoint.open(address)
        return await _open_with_tls(endpoint, plan)
    except (OSError, ValueError) as error:
        raise HostError(f"ottla.metrics.listener {address} cannot be used: {error}.") from None


async def _open_with_tls(endpoint: HostEndpoint, plan: HostPlan) -> str:
    """Opens with the TLS settings of a node's metrics listener: `listener.name.metrics.ssl.*` before `ssl.*`."""
    from ottla.host.tls_settings import listener_tls_settings
    from ottla.model.config.listener_keys import METRICS_LISTENER
    from ottla.tls.contexts import server_context
    from ottla.tls.errors import TlsError

    address = plan.metrics_listener
    try:
        config = own_config({**plan.nodes[0].properties, METRICS: address})
        settings = listener_tls_settings(config, METRICS_LISTENER)
        context = server_context(settings)
    except (ConfigError, TlsError) as error:
        raise HostError(f"ottla.metrics.listener {address} cannot use TLS. {error.message}") from None
    return await endpoint.open(address, context, settings.cipher_suites)


def _directory(plan: HostPlan) -> str:
    """The directory of the nodes' properties files, in the first log directory."""
    first = plan.nodes[0].properties["log.dirs"].split(",")[0]
    return os.path.dirname(os.path.dirname(first))


def _lock(directory: str) -> Any:
    try:
        os.makedirs(directory, exist_ok=True)
        return OsFiles().lock(os.path.join(directory, ".lock"))
    except DirectoryLocked:
        raise HostError(f"Another process is using the directory {directory}.") from None
    except OSError as error:
        raise HostError(f"Cannot use the directory {directory}: {error.strerror}.") from None


def _allow_descriptors() -> None:
    """Raises the limit of open files to the maximum of this process. Nodes inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
