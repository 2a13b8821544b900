"""The keys of a worker's properties file, with Kafka Connect's names and defaults.

Keys that begin with `spark.` go to the Spark session as they are; `producer.`, `consumer.` and `admin.` are prefixes
for clients. Unknown keys are kept in `original`, because plug-ins and converters have keys of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties
from ottla.connect.api.config_definitions import (
    ConfigDefinitions,
    ConfigError,
    ConfigType,
    Importance,
    OneOf,
    Range,
    Settings,
)
from ottla.connect.api.plugin import ConnectError
from ottla.connect.configuration.rest_listeners import DEFAULT_LISTENER, RestListener, rest_listeners
from ottla.connect.configuration.secrets import Mask, resolve_own

__all__ = ["DISTRIBUTED", "STANDALONE", "WorkerConfig"]


def _common() -> ConfigDefinitions:
    positive = Range(minimum=1)
    return (
        ConfigDefinitions()
        .define("bootstrap.servers", ConfigType.STRING, default="localhost:9092", importance=Importance.HIGH,
                documentation="Brokers to begin with, host:port, several with commas.")
        .define("key.converter", ConfigType.CLASS, importance=Importance.HIGH,
                documentation="How keys become bytes, unless a connector says otherwise.")
        .define("value.converter", ConfigType.CLASS, importance=Importance.HIGH,
                documentation="How values become bytes, unless a connector says otherwise.")
        .define("header.converter", ConfigType.CLASS, default=None,
                documentation="Headers are bytes here; the key is accepted and has no effect.")
        .define("plugin.path", ConfigType.LIST, default=(),
                documentation="Directories with Python packages that hold plug-ins.")
        .define("plugin.discovery", ConfigType.STRING, default="hybrid_warn",
                documentation="Accepted and without effect: Python packages are found in one way.")
        .define("listeners", ConfigType.LIST, default=(DEFAULT_LISTENER,),
                documentation="Addresses of the REST interface, http://host:port or https://host:port; port 0 takes a "
                              "free one, no host means every address. https has listeners.https.ssl.*.")
        .define("rest.advertised.host.name", ConfigType.STRING, default=None,
                documentation="The host under which other workers reach this one.")
        .define("rest.advertised.port", ConfigType.INT, default=None,
                documentation="The port under which other workers reach this one.")
        .define("rest.advertised.listener", ConfigType.STRING, default=None,
                documentation="Which listener other workers use, http or https; the first one by default.")
        .define("access.control.allow.origin", ConfigType.STRING, default="",
                documentation="Which web pages may call the REST interface.")
        .define("access.control.allow.methods", ConfigType.STRING, default="",
                documentation="Which methods those pages may use.")
        .define("admin.listeners", ConfigType.LIST, default=None,
                documentation="Empty switches /admin off; anything else leaves it on the one listener.")
        .define("task.shutdown.graceful.timeout.ms", ConfigType.LONG, default=5_000,
                documentation="How long a task may take to finish its batch when it is told to stop.")
        .define("offset.flush.interval.ms", ConfigType.LONG, default=60_000,
                documentation="Accepted; offsets are stored with every batch.")
        .define("offset.flush.timeout.ms", ConfigType.LONG, default=5_000, documentation="Accepted and without effect.")
        .define("topic.tracking.enable", ConfigType.BOOLEAN, default=True,
                documentation="Whether workers note which topics a connector uses.")
        .define("topic.tracking.allow.reset", ConfigType.BOOLEAN, default=True,
                documentation="Whether that note may be emptied.")
        .define("topic.creation.enable", ConfigType.BOOLEAN, default=True,
                documentation="Whether sources may create topics by their own rules.")
        .define("config.providers", ConfigType.LIST, default=(),
                documentation="Names of providers that connectors may use as ${name:path:key}: file, env, dir or one "
                              "with its class. This file may use those three in any case.")
        .define("connector.client.config.override.policy", ConfigType.STRING, default="All",
                documentation="Accepted; connectors may override settings of clients.")
        .define("client.id", ConfigType.STRING, default="", documentation="A name for this worker at the brokers.")
        .define("trigger.interval.ms", ConfigType.LONG, default=1_000, validator=positive,
                documentation="How often a task looks for work, unless a connector says otherwise.")
        .define("batch.max.records", ConfigType.LONG, default=500_000, validator=positive,
                documentation="How many records a batch may have, unless a connector says otherwise.")
        .define("batch.max.bytes", ConfigType.LONG, default=64 * 1024 * 1024, validator=positive,
                documentation="How many bytes a batch may have, unless a connector says otherwise.")
        .define("spark.master", ConfigType.STRING, default=None,
                documentation="Where Spark runs; local[*] when nothing is said.")
        .define("spark.remote", ConfigType.STRING, default=None, documentation="A Spark Connect address instead.")
        .define("checkpoint.location", ConfigType.STRING, default=None,
                documentation="A directory for sources that keep their offsets in Spark's checkpoints.")
    )  # fmt: skip


STANDALONE = _common().define(
    "offset.storage.file.filename", ConfigType.STRING, documentation="The file with the offsets of sources."
)

DISTRIBUTED = (
    _common()
    .define("group.id", ConfigType.STRING, importance=Importance.HIGH,
            documentation="Workers with the same one share their work.")
    .define("config.storage.topic", ConfigType.STRING, importance=Importance.HIGH,
            documentation="The topic with configurations.")
    .define("config.storage.replication.factor", ConfigType.SHORT, default=None,
            documentation="Replicas of that topic, when a worker creates it: three if not set, or one on each of fewer "
                          "brokers; -1 leaves it to the brokers.")
    .define("offset.storage.topic", ConfigType.STRING, importance=Importance.HIGH,
            documentation="The topic with the offsets of sources.")
    .define("offset.storage.replication.factor", ConfigType.SHORT, default=None, documentation="Its replicas.")
    .define("offset.storage.partitions", ConfigType.INT, default=25, documentation="Its partitions.")
    .define("status.storage.topic", ConfigType.STRING, importance=Importance.HIGH,
            documentation="The topic with what connectors and tasks do.")
    .define("status.storage.replication.factor", ConfigType.SHORT, default=None, documentation="Its replicas.")
    .define("status.storage.partitions", ConfigType.INT, default=5, documentation="Its partitions.")
    .define("session.timeout.ms", ConfigType.INT, default=10_000, importance=Importance.HIGH,
            documentation="After how long without a sign of life a worker counts as dead.")
    .define("heartbeat.interval.ms", ConfigType.INT, default=3_000, importance=Importance.HIGH,
            documentation="How often a worker gives a sign of life.")
    .define("rebalance.timeout.ms", ConfigType.INT, default=60_000, importance=Importance.HIGH,
            documentation="How long workers may take to join a rebalance.")
    .define("scheduled.rebalance.max.delay.ms", ConfigType.INT, default=0,
            documentation="How long the work of a dead worker waits for it to come back. Kafka's default is 300000.")
    .define("worker.sync.timeout.ms", ConfigType.INT, default=3_000,
            documentation="How long a worker may take to read the config topic to its end.")
    .define("worker.unsync.backoff.ms", ConfigType.INT, default=300_000,
            documentation="Accepted; a worker that is behind tries again at once.")
    .define("exactly.once.source.support", ConfigType.STRING, default="enabled",
            validator=OneOf("disabled", "preparing", "enabled", any_case=True),
            documentation="Accepted: sources with readers always write in transactions.")
    .define("connect.protocol", ConfigType.STRING, default="sessioned",
            documentation="Accepted; workers speak one protocol among themselves.")
)  # fmt: skip


class WorkerConfig:
    """A worker's configuration, typed."""

    def __init__(self, properties: Mapping[str, str], *, distributed: bool) -> None:
        self.distributed = distributed
        # The values of references, which logs and answers must hide.
        self.mask = Mask()
        try:
            self.original = resolve_own(properties, self.mask)
        except ConnectError as error:
            raise ConfigError(str(error)) from None
        self.settings: Settings = (DISTRIBUTED if distributed else STANDALONE).parse(self.original)
        self.group_id = self.settings.text("group.id") if distributed else "connect-standalone"
        if distributed and self.settings.integer("session.timeout.ms") <= self.settings.integer(
            "heartbeat.interval.ms"
        ):
            raise ConfigError("session.timeout.ms must be more than heartbeat.interval.ms.", name="session.timeout.ms")

    def client_settings(self, purpose: str = "") -> ClientSettings:
        """The settings of a client. `purpose` becomes part of its client id."""
        base = ClientSettings(
            bootstrap_servers=parse_bootstrap(self.settings.text("bootstrap.servers"), option="bootstrap.servers")
        )
        name = self.settings.text("client.id") or f"connect-{self.group_id}"
        properties = {key: text for key, text in self.original.items() if key != "client.id"}
        settings = settings_from_properties(base, properties)
        return ClientSettings(
            **{
                **{slot: getattr(settings, slot) for slot in settings.__slots__},
                "client_id": f"{name}-{purpose}" if purpose else name,
            }
        )

    def listeners(self) -> list[RestListener]:
        """The listeners of the REST interface."""
        return rest_listeners(self.settings.texts("listeners"))

    def spark_settings(self) -> dict[str, str]:
        """The keys for the Spark session."""
        return {
            key: text
            for key, text in self.original.items()
            if key.startswith("spark.") and key not in ("spark.master", "spark.remote")
        }

    def topic_settings(self, store: str) -> dict[str, str]:
        """`config.storage.x.y=z` → `x.y=z`: settings of a store's topic, without the worker's own keys."""
        prefix = f"{store}.storage."
        own = {"topic", "partitions", "replication.factor"}
        return {
            key.removeprefix(prefix): text
            for key, text in self.original.items()
            if key.startswith(prefix) and key.removeprefix(prefix) not in own and not key.endswith("file.filename")
        }

    def converter_defaults(self, given: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """The worker's converters and their settings, for those that `given` does not configure.

        A converter of the connector's own gets its settings from the connector alone, as in Kafka.
        """
        kinds = [kind for kind in ("key.converter", "value.converter", "header.converter") if not given.get(kind)]
        return {
            key: text
            for key, text in self.original.items()
            if any(key == kind or key.startswith(f"{kind}.") for kind in kinds)
        }
