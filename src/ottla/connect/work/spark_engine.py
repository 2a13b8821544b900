"""The engine: one Spark session for all tasks of a worker, a thread for each task.

The Spark jobs of all tasks share the session's cores fairly. A task sends its requests to the cluster through the
worker's event loop and its open connections; only rows travel between Spark's executors and the brokers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ottla.client.admin.transactions import Transactions
from ottla.client.cluster import Cluster
from ottla.connect.api import ConnectError, SinkConnector, SourceConnector
from ottla.connect.api.config_definitions import names_in
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.plugins import Plugins
from ottla.connect.work.causes import cause_of
from ottla.connect.work.chain import build_chain
from ottla.connect.work.engine import RunningTask, TaskEvents, TaskSpec
from ottla.connect.work.jobs import UP_TO_THREE, ConnectorReference, CreationRule, WriteTarget
from ottla.connect.work.own_task import OwnTask
from ottla.connect.work.sink_task import SinkTask
from ottla.connect.work.source_offsets import OffsetStore
from ottla.connect.work.source_task import SourceTask
from ottla.connect.work.stream_task import StreamTask
from ottla.connect.work.task_loop import TaskLoop, TaskStart
from ottla.connect.work.transactions import TaskTransactions
from ottla.model.errors import KafkaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine", "creation_rules"]

logger = logging.getLogger(__name__)

_SESSION_ATTEMPTS = 3
_PROGRESS_SECONDS = 5.0
# Settings of producers (`producer.`, `producer.override.`) that sources may have and the writer of rows supports.
_PRODUCER_KEYS = (
    "compression.type",
    "compression.level",
    "batch.size",
    "buffer.memory",
    "delivery.timeout.ms",
    "request.timeout.ms",
)
_CONSUMER_KEYS = ("isolation.level", "fetch.max.bytes", "request.timeout.ms")


class SparkEngine:
    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        offsets: OffsetStore,
        cluster: Cluster,
        *,
        spark: SparkSession | None = None,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._offsets = offsets
        self._cluster = cluster
        self._spark = spark
        self._given = spark is not None
        # Weak, because names of deleted connectors may never come back.
        self._running: WeakValueDictionary[str, TaskLoop] = WeakValueDictionary()

    async def start(self) -> None:
        if self._spark is not None:
            return
        began = time.monotonic()
        settings = self._config.settings
        where = settings.text_or_none("spark.remote") or settings.text_or_none("spark.master") or "this machine"
        logger.info("Starting Spark on %s", where)
        starting = asyncio.ensure_future(asyncio.to_thread(self._session))
        while not (await asyncio.wait([starting], timeout=_PROGRESS_SECONDS))[0]:
            logger.info("Spark is starting, %.0f s so far", time.monotonic() - began)
        self._spark = await starting
        logger.info("Spark %s has started, in %.1f s", self._spark.version, time.monotonic() - began)

    async def stop(self) -> None:
        if self._spark is not None and not self._given:
            await asyncio.to_thread(self._spark.stop)
            self._spark = None

    def run(self, spec: TaskSpec, events: TaskEvents, *, paused: bool) -> RunningTask:
        assert self._spark is not None, "the engine was not started"
        spec = self._with_defaults(spec)
        start = TaskStart(spec, events, asyncio.get_running_loop(), paused=paused)
        task: TaskLoop
        if issubclass(spec.connector, SinkConnector):
            task = self._sink(start)
        else:
            assert issubclass(spec.connector, SourceConnector)
            if spec.connector.worker is not SourceConnector.worker:
                task = OwnTask(start)
            elif spec.connector.stream is not SourceConnector.stream:
                task = self._stream(start)
            else:
                task = self._source(start)
        self._running[spec.task.id] = task
        task.start()
        return task

    async def fence(self, transactional_ids: list[str]) -> None:
        # All at the same time: a coordinator that does not answer costs one time-out, not one for each task.
        results = await Transactions(self._cluster).fence(transactional_ids)
        failures = {name: result for name, result in results.items() if isinstance(result, KafkaError)}
        for transactional_id, error in failures.items():
            logger.warning("Fencing %s failed: %s", transactional_id, error)
        for error in failures.values():
            raise error

    def _session(self) -> SparkSession:
        import ottla.spark
        from ottla.spark.java import JavaMissing

        settings = self._config.settings
        for attempt in range(_SESSION_ATTEMPTS):
            try:
                return ottla.spark.session(
                    f"connect-{self._config.group_id}",
                    master=settings.text_or_none("spark.master"),
                    remote=settings.text_or_none("spark.remote"),
                    # Tasks share the cores fairly, whichever job came first.
                    settings={"spark.scheduler.mode": "FAIR", **self._config.spark_settings()},
                )
            except Exception as error:
                if isinstance(error, JavaMissing) or attempt == _SESSION_ATTEMPTS - 1:
                    raise
                logger.warning("Starting Spark failed and is tried again: %s", cause_of(error))
                logger.debug("Starting Spark failed", exc_info=True)
        raise AssertionError("not reached")

    def _source(self, start: TaskStart) -> SourceTask:
        assert self._spark is not None
        spec = start.spec

        def target(transactions: TaskTransactions) -> WriteTarget:
            producer_id, epoch = transactions.share()
            return WriteTarget(
                client=self._config.client_settings(spec.task.id),
                transactional_id=transactions.transactional_id,
                producer_id=producer_id,
                epoch=epoch,
                options=self._client_options(spec.config, "producer", _PRODUCER_KEYS),
                rules=creation_rules(spec.config) if self._config.settings.flag("topic.creation.enable") else (),
            )

        return SourceTask(
            start,
            spark=self._spark,
            chain=build_chain(spec.config, self._plugins, task=spec.task.number),
            transactions=TaskTransactions(self._cluster, spec.transactional_id),
            is_current=self._is_current,
            offsets=self._offsets,
            target=target,
            reference=ConnectorReference.of(spec.connector, self._plugins.paths),
        )

    def _stream(self, start: TaskStart) -> StreamTask:
        assert self._spark is not None
        spec = start.spec
        base = spec.config.get("checkpoint.location") or self._config.settings.text_or_none("checkpoint.location")
        if not base:
            raise ConnectError(
                f"{spec.connector.__name__} keeps its offsets in a directory: set checkpoint.location of the connector "
                "or of the worker to one that every worker reaches."
            )
        return StreamTask(
            start,
            spark=self._spark,
            chain=build_chain(spec.config, self._plugins, task=spec.task.number),
            options=self._client_options(spec.config, "producer", _PRODUCER_KEYS),
            checkpoint=f"{base.rstrip('/')}/{spec.task.id}",
        )

    def _sink(self, start: TaskStart) -> SinkTask:
        assert self._spark is not None
        spec = start.spec
        options = {
            "onDataLoss": "earliest",
            **self._client_options(spec.config, "consumer", _CONSUMER_KEYS),
        }
        return SinkTask(
            start,
            spark=self._spark,
            chain=build_chain(spec.config, self._plugins, task=spec.task.number),
            transactions=TaskTransactions(self._cluster, spec.transactional_id),
            is_current=self._is_current,
            cluster=self._cluster,
            client_options=options,
            dead_letters=WriteTarget(
                client=self._config.client_settings(spec.task.id),
                options=self._client_options(spec.config, "producer", _PRODUCER_KEYS),
                rules=(_dead_letter_rule(spec.config),),
            ),
        )

    def _is_current(self, task: TaskLoop) -> bool:
        """True if the task is the present run of its name and is not being stopped."""
        return self._running.get(task.spec.task.id) is task and not task.is_stopping

    def _with_defaults(self, spec: TaskSpec) -> TaskSpec:
        """The specification with the worker's defaults for settings that the connector does not have."""
        settings = self._config.settings
        defaults = {
            name: str(settings.integer(name))
            for name in ("trigger.interval.ms", "batch.max.records", "batch.max.bytes")
        }
        return TaskSpec(
            task=spec.task,
            connector=spec.connector,
            config={**defaults, **spec.config},
            transactional_id=spec.transactional_id,
            group_id=spec.group_id,
        )

    def _client_options(self, config: Mapping[str, str], kind: str, keys: tuple[str, ...]) -> dict[str, str]:
        """`producer.x` of the worker and `producer.override.x` of the connector, as options of source and sink.

        The worker's own security settings apply to its connectors, unless a connector overrides them.
        """
        worker = self._config.original
        options = {"bootstrap.servers": self._config.settings.text("bootstrap.servers")}
        for given, prefix in ((worker, ""), (worker, f"{kind}."), (config, f"{kind}.override.")):
            for name, text in given.items():
                key = name.removeprefix(prefix)
                if name.startswith(prefix) and (_is_security(key) or (prefix and key in keys)):
                    options[key] = text
        return options


def _is_security(name: str) -> bool:
    return name == "security.protocol" or name.startswith(("ssl.", "sasl."))


def creation_rules(config: Mapping[str, str]) -> tuple[CreationRule, ...]:
    """`topic.creation.<group>.…` as rules, the default group last (KIP-158)."""
    rules = []
    for group in [*names_in(config.get("topic.creation.groups")), "default"]:
        prefix = f"topic.creation.{group}."
        given = {key.removeprefix(prefix): text for key, text in config.items() if key.startswith(prefix)}
        if not given:
            continue
        rules.append(
            CreationRule(
                include=(".*",) if group == "default" else tuple(names_in(given.pop("include", ""))),
                exclude=tuple(names_in(given.pop("exclude", ""))),
                partitions=int(given.pop("partitions", "-1")),
                replication_factor=int(given.pop("replication.factor", "-1")),
                configs=given,
            )
        )
    return tuple(rules)


def _dead_letter_rule(config: Mapping[str, str]) -> CreationRule:
    replicas = int(config.get("errors.deadletterqueue.topic.replication.factor", UP_TO_THREE))
    return CreationRule(partitions=1, replication_factor=replicas, configs={})
