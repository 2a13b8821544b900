"""A worker as a process: stores, engine, herder and REST interface, started and stopped in order.

async with Worker(WorkerConfig(properties, distributed=True)) as worker:
    print(worker.url)
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Self

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord
from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.configuration.rest_listeners import advertised_listener, rest_tls
from ottla.connect.configuration.secrets import Mask, hide_in_logs, make_providers, resolve
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.herder import Herder
from ottla.connect.control.rest.server import RestServer
from ottla.connect.control.states import TargetState
from ottla.connect.control.stores import Stores
from ottla.connect.control.stores.config import MemoryConfigStore, TopicConfigStore
from ottla.connect.control.stores.offsets import FileOffsetStore, TopicOffsetStore
from ottla.connect.control.stores.status import MemoryStatusStore, TopicStatusStore
from ottla.connect.control.stores.topic_log import TopicLog
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import Engine
from ottla.connect.work.source_offsets import OffsetStore
from ottla.model.config.parse import parse_properties

__all__ = ["Worker", "read_connector_file", "run_worker"]

logger = logging.getLogger(__name__)

# Makes the engine of a worker from its configuration, plug-ins, offset store and cluster.
EngineFactory = Callable[[WorkerConfig, Plugins, OffsetStore, Cluster], Engine]


class Worker:
    """A worker of Connect, as an async context manager."""

    def __init__(
        self, config: WorkerConfig, *, engine: EngineFactory | None = None, plugins: Plugins | None = None
    ) -> None:
        self.config = config
        self.plugins = plugins or Plugins(config.settings.texts("plugin.path"))
        self._make_engine = engine or _spark_engine
        # The values of secrets, which logs and answers must hide: the worker's, and those of its connectors.
        self.mask = config.mask
        self._stop_hiding: Callable[[], None] | None = None
        self._listeners = config.listeners()
        has_tls = any(listener.scheme == "https" for listener in self._listeners)
        self._rest = RestServer(
            self._listeners,
            tls=rest_tls(config.original) if has_tls else None,
            allow_origin=config.settings.text("access.control.allow.origin"),
            allow_methods=config.settings.text("access.control.allow.methods"),
            has_admin=config.settings["admin.listeners"] != (),
        )
        self.url = ""
        self.herder: Herder | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._stop_hiding = hide_in_logs(self.mask)
        await self._rest.start()
        settings = self.config.settings
        shown = advertised_listener(self._listeners, settings.text_or_none("rest.advertised.listener"))
        host = settings.text_or_none("rest.advertised.host.name") or self._listeners[shown].host
        if not host or host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        port = settings["rest.advertised.port"] or self._rest.ports[shown]
        self.url = f"{self._listeners[shown].scheme}://{host}:{port}/"
        stores = self._stores()
        cluster = Cluster(self.config.client_settings())
        self.herder = Herder(
            self.config,
            url=self.url,
            stores=stores,
            plugins=self.plugins,
            engine=self._make_engine(self.config, self.plugins, stores.source_offsets, cluster),
            resolve=_resolver(self.config, self.plugins, self.mask),
            hide=self.mask.hide,
            cluster=cluster,
        )
        await self.herder.start()
        self._rest.serve(self.herder)

    async def stop(self) -> None:
        await self._rest.stop()
        if self.herder is not None:
            await self.herder.stop()
        if self._stop_hiding is not None:
            self._stop_hiding()

    async def create(self, config: Mapping[str, str], target: TargetState | None = None) -> None:
        """Creates a connector from a file of the command line."""
        assert self.herder is not None
        name = config.get("name")
        if not name:
            raise ConfigError("A connector's file must have a name.", name="name")
        await self.herder.connectors.put(name, dict(config), target=target, replace=True)

    def _stores(self) -> Stores:
        settings = self.config.settings
        if not self.config.distributed:
            path = Path(settings.text("offset.storage.file.filename"))
            return Stores(MemoryConfigStore(), MemoryStatusStore(), FileOffsetStore(path))
        return Stores(
            TopicConfigStore(self._log("config", 1)),
            TopicStatusStore(self._log("status", settings.integer("status.storage.partitions"))),
            TopicOffsetStore(self._log("offset", settings.integer("offset.storage.partitions"))),
        )

    def _log(self, kind: str, partitions: int) -> Callable[[Callable[[ConsumedRecord], None]], TopicLog]:
        topic, factor = f"{kind}.storage.topic", f"{kind}.storage.replication.factor"
        return partial(
            TopicLog,
            self.config.client_settings(f"{kind}s"),
            self.config.settings.text(topic),
            partitions=partitions,
            replication_factor=None if self.config.settings[factor] is None else self.config.settings.integer(factor),
            topic_setting=topic,
            factor_setting=factor,
            topic_settings=self.config.topic_settings(kind),
        )


async def run_worker(config: WorkerConfig, connectors: Iterable[tuple[Mapping[str, str], TargetState | None]]) -> None:
    """Runs a worker until the process gets SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with Worker(config) as worker:
        for given, target in connectors:
            await worker.create(given, target)
        logger.info("Connect answers at %s", worker.url)
        await stopped.wait()


def read_connector_file(path: Path) -> tuple[dict[str, str], TargetState | None]:
    """A connector's configuration: properties, or JSON with or without `name` and `config` around it (KIP-1086)."""
    text = path.read_text()
    if path.suffix != ".json":
        return dict(parse_properties(text)), None
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not a JSON object.")
    target = None
    if "config" in value and isinstance(value["config"], dict):
        name, given = value.get("name"), value.get("initial_state")
        if given is not None:
            words = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
            if str(given).upper() not in words:
                raise ConfigError(f"initial_state is {given}, but it must be one of {', '.join(words)}.")
            target = words[str(given).upper()]
        value = {**value["config"], **({"name": name} if name else {})}
    return {key: setting if isinstance(setting, str) else json.dumps(setting) for key, setting in value.items()}, target


def _spark_engine(config: WorkerConfig, plugins: Plugins, offsets: OffsetStore, cluster: Cluster) -> Engine:
    from ottla.connect.work.spark_engine import SparkEngine

    return SparkEngine(config, plugins, offsets, cluster)


def _resolver(config: WorkerConfig, plugins: Plugins, mask: Mask) -> Callable[[Mapping[str, str]], dict[str, str]]:
    providers = make_providers(config.original, plugins)
    return lambda given: resolve(given, providers, mask)
