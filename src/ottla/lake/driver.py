"""All tables of a properties file, kept current in one Spark session.

The driver lists the topics periodically. Each table has its turn when its commit interval has passed, or at once
while it is behind. A table that fails for good is left out and reported; other failures (a broker, a catalog or an
executor that is away) are retried with a growing pause. A topic whose configuration is wrong has no table until the
configuration is corrected; other topics are not concerned.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.lake.catalogs import IcebergStore
from ottla.lake.delta import DeltaStore
from ottla.lake.errors import LakeError
from ottla.lake.pipeline import TablePipeline
from ottla.lake.settings import LakeSettings, TableSettings, TopicSetting
from ottla.lake.stores import TableStore
from ottla.model.errors import ErrorCode, KafkaError
from ottla.spark.client import client_of
from ottla.spark.options import client_settings
from ottla.spark.source.loss import DataLost
from ottla.spark.tables import open_catalog

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

__all__ = ["LakeDriver", "TopicTables", "find_tables", "store_of"]

log = logging.getLogger(__name__)

_TOPICS_SECONDS = 30.0
_IDLE_SECONDS = 0.2
_PAUSE_SECONDS_MIN = 1.0
_PAUSE_SECONDS_MAX = 30.0
# The pause is at its maximum after five doublings. The factor for 1025 failures does not fit into a float.
_DOUBLINGS_MAX = 5
# Attempts of a step with `until_current`.
_ATTEMPTS_ONCE = 5


class TopicTables(NamedTuple):
    """The topics that the file or their own configuration selects."""

    tables: dict[str, TableSettings]
    problems: dict[str, LakeError | KafkaError]
    """Topics without valid settings: their configuration has an error (LakeError), or could not be read."""


def find_tables(settings: LakeSettings) -> TopicTables:
    """Raises ClientError and KafkaError if the topics are not known."""
    topic_tables = TopicTables({}, {})
    for topic, own in sorted(_topic_configurations(settings).items()):
        if isinstance(own, KafkaError):
            topic_tables.problems[topic] = KafkaError(own.code, f"The configuration of topic {topic}: {own.message}")
        elif settings.selects(topic, own):
            try:
                topic_tables.tables[topic] = settings.table(topic, own)
            except LakeError as error:
                topic_tables.problems[topic] = error
    return topic_tables


def _topic_configurations(settings: LakeSettings) -> dict[str, Mapping[str, str] | KafkaError]:
    client = client_of(client_settings(settings.client, client_id="ottla-lake"))

    async def find() -> dict[str, Mapping[str, str] | KafkaError]:
        names = [name for name in await client.admin.topics.names() if not name.startswith("__")]
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        keys = [TopicSetting.MODE, TopicSetting.PARTITION_BY]
        answers = await client.admin.configs.describe(resources, keys=keys) if resources else {}
        by_topic: dict[str, Mapping[str, str] | KafkaError] = {}
        for resource, entries in answers.items():
            if not isinstance(entries, KafkaError):
                by_topic[resource.name] = {entry.name: entry.value for entry in entries if entry.value}
            elif entries.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                # This user may not read the configuration: the properties file alone decides.
                by_topic[resource.name] = {}
            elif entries.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # Without its configuration, the topic would get a table of another mode.
                by_topic[resource.name] = entries
            # Otherwise the topic was deleted, or this broker does not know the new topic yet: a later call finds it.
        return by_topic

    return client.run(find())


def store_of(lake: LakeSettings, catalog: Catalog, table: TableSettings) -> TableStore:
    """The store for the format of the table."""
    return DeltaStore(lake.catalog["warehouse"]) if table.format == "delta" else IcebergStore(catalog)


class _Turn:
    """A table and the time of its next step."""

    def __init__(self, pipeline: TablePipeline) -> None:
        self.pipeline = pipeline
        self.due_at = 0.0
        self.failures = 0
        self.problem = ""

    @property
    def is_current(self) -> bool:
        """True if the last step succeeded and the next one is not due."""
        return self.failures == 0 and self.due_at > time.monotonic()

    def advance(self, now: float, *, is_behind: bool) -> None:
        self.failures = 0
        self.due_at = now if is_behind else now + self.pipeline.settings.commit_interval_ms / 1000

    def postpone(self, now: float, problem: str) -> None:
        self.problem = problem
        self.failures += 1
        pause = _PAUSE_SECONDS_MIN * 2 ** min(self.failures - 1, _DOUBLINGS_MAX)
        self.due_at = now + min(_PAUSE_SECONDS_MAX, pause)


class LakeDriver:
    def __init__(self, settings: LakeSettings, spark: SparkSession) -> None:
        self._settings = settings
        self._spark = spark
        self._catalog: Catalog = open_catalog(settings.catalog)
        self._turns: dict[str, _Turn] = {}
        self.failed: dict[str, str] = {}
        """Why tables are left out, by topic."""
        # The settings of tables that have failed for good. Other settings are tried.
        self._refused: dict[str, TableSettings] = {}
        self._topics_at = 0.0
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ends `run` after the present batch. May be called from any thread and from signal handlers."""
        self._stopping.set()

    def run(self, on_ready: Callable[[list[str]], None] | None = None, *, until_current: bool = False) -> None:
        """Keeps tables current until `stop`, or until every table has caught up with its topic (`until_current`).

        Raises LakeError if every table has failed for good.
        """
        self._find_topics()
        if on_ready is not None:
            on_ready(sorted(self._turns))
        while not self._stopping.is_set():
            if time.monotonic() - self._topics_at > _TOPICS_SECONDS:
                self._find_topics()
            due = [turn for turn in self._turns.values() if turn.due_at <= time.monotonic()]
            for turn in sorted(due, key=lambda turn: turn.due_at):
                if self._stopping.is_set():
                    return
                self._step(turn)
                if until_current and turn.failures >= _ATTEMPTS_ONCE:
                    self._refuse(turn.pipeline.settings, turn.problem)
            if self._refused and not self._turns:
                raise LakeError(self.failed[next(iter(self._refused))])
            if until_current and all(turn.is_current for turn in self._turns.values()):
                return
            self._stopping.wait(_IDLE_SECONDS)

    def _find_topics(self) -> None:
        self._topics_at = time.monotonic()
        try:
            tables, problems = find_tables(self._settings)
        except Exception as error:
            if not self._turns:
                raise
            log.warning("The topics are not known at the moment: %s", error)
            return
        for topic, table in tables.items():
            turn = self._turns.get(topic)
            if self._refused.get(topic) != table and (turn is None or turn.pipeline.settings != table):
                self._begin(table)
        for topic, problem in problems.items():
            if isinstance(problem, KafkaError) and topic in self._turns:
                log.warning("The settings of topic %s are not known at the moment: %s", topic, problem)
            elif self.failed.get(topic) != str(problem):
                self._leave_out(topic, str(problem))
        for topic in self._turns.keys() - tables.keys() - problems.keys():
            log.info("Topic %s is not selected any more, or was deleted; its table stays", topic)
            del self._turns[topic]
        for topic in self.failed.keys() - tables.keys() - problems.keys():
            del self.failed[topic]
            self._refused.pop(topic, None)

    def _begin(self, table: TableSettings) -> None:
        log.info("Topic %s becomes table %s", table.topic, ".".join(table.identifier))
        self.failed.pop(table.topic, None)
        self._refused.pop(table.topic, None)
        try:
            self._turns[table.topic] = _Turn(self._pipeline(table))
        except LakeError as error:
            self._refuse(table, str(error))

    def _pipeline(self, table: TableSettings) -> TablePipeline:
        return TablePipeline(self._spark, store_of(self._settings, self._catalog, table), self._settings, table)

    def _step(self, turn: _Turn) -> None:
        settings = turn.pipeline.settings
        try:
            turn.pipeline.step()
        except (LakeError, DataLost) as error:
            self._refuse(settings, str(error))
        except Exception as error:  # noqa: BLE001 - Spark, catalogs and object stores raise arbitrary errors
            turn.postpone(time.monotonic(), _first_line(error))
            log.warning("Topic %s waits %.0f s: %s", settings.topic, turn.due_at - time.monotonic(), turn.problem)
        else:
            turn.advance(time.monotonic(), is_behind=turn.pipeline.lag > 0)

    def _refuse(self, table: TableSettings, reason: str) -> None:
        self._refused[table.topic] = table
        self._leave_out(table.topic, reason)

    def _leave_out(self, topic: str, reason: str) -> None:
        log.error("Topic %s is left out: %s", topic, reason)
        self.failed[topic] = reason
        self._turns.pop(topic, None)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
