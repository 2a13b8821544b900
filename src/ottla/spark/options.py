"""The options of `format("ottla")`, read once into values that travel to the workers.

Names are those of Spark's own Kafka connector, as far as it has them; Spark ignores their case. Settings of Kafka's
clients may have the prefix `kafka.` or not. Unknown options are refused, because an ignored misspelt option is noticed
too late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties
from ottla.model.ids import TopicPartition

__all__ = [
    "CLIENT_NAMES",
    "EARLIEST",
    "LATEST",
    "HistoryOptions",
    "OptionError",
    "Point",
    "Selection",
    "SourceOptions",
    "boolean",
    "client_settings",
    "is_client_option",
    "number",
    "source_options",
    "without_prefix",
]

LATEST = -1
EARLIEST = -2
"""Kafka's numbers for the two ends of a partition, also in the JSON of `startingOffsets`."""


FETCH_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024


class OptionError(ValueError):
    """An option is missing, unknown or invalid."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics to read: exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """The start or end of reading. Numbers are offsets (or EARLIEST, LATEST), times milliseconds since 1970."""

    everywhere: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int | None = None
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """The table that has the history of the topic."""

    table: str
    catalog: tuple[tuple[str, str], ...]
    """Properties of the catalog, as pyiceberg has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    client: ClientSettings
    selection: Selection
    starting: Point
    ending: Point
    # The committed offsets of the group; `starting` applies to partitions without a committed offset.
    starting_committed: bool = False
    # The start for a time after the last record: "latest", or an error.
    late_time: str = "error"
    read_committed: bool = True
    include_headers: bool = True
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    # fail, earliest or report.
    on_data_loss: str = "fail"
    group_id: str | None = None
    fetch_bytes: int = FETCH_BYTES
    # The bytes of records in an Arrow batch.
    batch_bytes: int = BATCH_BYTES
    # The implementation that decodes records: "" (the best available), "native" or "python".
    decoder: str = ""
    history: HistoryOptions | None = None


_SOURCE_NAMES = {
    "bootstrap.servers",
    "subscribe",
    "subscribepattern",
    "assign",
    "startingoffsets",
    "startingtimestamp",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "endingoffsets",
    "endingtimestamp",
    "endingoffsetsbytimestamp",
    "maxoffsetspertrigger",
    "maxbytespertrigger",
    "minpartitions",
    "failondataloss",
    "auto.offset.reset",
    "ondataloss",
    "includeheaders",
    "isolation.level",
    "group.id",
    "decoder",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "batch.bytes",
    "query.name",
    # Accepted without effect: options of Spark's connector that this source does not need.
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
}
CLIENT_NAMES = {
    "client.id",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "metadata.max.age.ms",
    "socket.connection.setup.timeout.max.ms",
    "security.protocol",
}


def is_client_option(name: str) -> bool:
    """True if the option is a setting of Kafka's clients, including the families `ssl.` and `sasl.`."""
    return name in CLIENT_NAMES or name.startswith(("ssl.", "sasl."))


def without_prefix(options: Mapping[str, str]) -> dict[str, str]:
    """Options in lower case, without the prefix `kafka.`."""
    normalized: dict[str, str] = {}
    for name, value in options.items():
        key = name.lower()
        normalized[key.removeprefix("kafka.")] = value
    return normalized


def client_settings(options: Mapping[str, str], *, client_id: str = "ottla-spark") -> ClientSettings:
    """The client settings from the options of `without_prefix`."""
    servers = options.get("bootstrap.servers")
    if not servers:
        raise OptionError("Option 'bootstrap.servers' is missing: set it to an address like localhost:9092.")
    settings = ClientSettings(
        bootstrap_servers=parse_bootstrap(servers, option="option 'bootstrap.servers'"), client_id=client_id
    )
    return settings_from_properties(settings, {key: text for key, text in options.items() if is_client_option(key)})


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Reads the options of a source. Raises OptionError."""
    given = without_prefix(options)
    known = {name for name in given if name == "history" or name.startswith("history.")}
    unknown = sorted(name for name in set(given) - _SOURCE_NAMES - known if not is_client_option(name))
    if unknown:
        raise OptionError(f"Option {unknown[0]!r} is unknown to an ottla source.")
    if streaming:
        for name in ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"):
            if name in given:
                raise OptionError(f"Option {name!r} is for batch queries: a stream has no end.")
    committed = given.get("startingoffsets", "").strip().lower() == "committed"
    if "auto.offset.reset" in given and not committed:
        raise OptionError(
            "Option 'auto.offset.reset' is for startingOffsets=committed; otherwise set the start with startingOffsets."
        )
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy={strategy!r} is neither 'error' nor 'latest'.")
    isolation = given.get("isolation.level", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(f"isolation.level={isolation!r} is neither 'read_committed' nor 'read_uncommitted'.")
    decoder = given.get("decoder", "")
    if decoder not in ("", "native", "python"):
        raise OptionError(f"decoder={decoder!r} is neither 'native' nor 'python'.")
    return SourceOptions(
        client=client_settings(given),
        selection=_selection(given),
        starting=_point(given, "starting", default=LATEST if streaming else EARLIEST, last=False, streaming=streaming),
        ending=_point(given, "ending", default=LATEST, last=True, streaming=streaming),
        starting_committed=committed,
        late_time=strategy,
        read_committed=isolation == "read_committed",
        include_headers=boolean(given, "includeheaders", True),
        max_offsets_per_trigger=number(given, "maxoffsetspertrigger"),
        max_bytes_per_trigger=number(given, "maxbytespertrigger"),
        min_partitions=number(given, "minpartitions"),
        on_data_loss=_data_loss(given),
        group_id=given.get("group.id") or None,
        # A fetch is for one partition, so both limits mean the same.
        fetch_bytes=min(
            filter(None, (number(given, name) for name in ("max.partition.fetch.bytes", "fetch.max.bytes"))),
            default=FETCH_BYTES,
        ),
        batch_bytes=number(given, "batch.bytes") or BATCH_BYTES,
        decoder=decoder,
        history=_history(given, streaming=streaming),
    )


def _history(given: Mapping[str, str], *, streaming: bool) -> HistoryOptions | None:
    """`history` names a table; `history.warehouse` or `history.catalog.*` its catalog, as for `ottla lake`."""
    table = given.get("history")
    if table is None:
        return None
    if streaming:
        raise OptionError("Option 'history' is for batch queries: a stream reads the topic from its offsets on.")
    catalog = {
        name.removeprefix("history.catalog."): value
        for name, value in given.items()
        if name.startswith("history.catalog.")
    }
    warehouse = given.get("history.warehouse")
    if warehouse is None and "uri" not in catalog:
        raise OptionError("Option 'history' needs history.warehouse, the directory of tables, or history.catalog.uri.")
    if warehouse is not None:
        catalog.setdefault("warehouse", warehouse)
        catalog.setdefault("uri", f"sqlite:///{Path(warehouse).absolute()}/catalog.db")
    catalog.setdefault("type", "rest" if catalog["uri"].startswith("http") else "sql")
    return HistoryOptions(table, tuple(sorted(catalog.items())))


def number(options: Mapping[str, str], name: str) -> int | None:
    """A positive number; None if the option is not set."""
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise OptionError(f"Option {name!r} is {text!r}, not a positive number.")
    return int(text)


def boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"Option {name!r} is {text!r}, neither true nor false.")
    return text == "true"


def _selection(given: Mapping[str, str]) -> Selection:
    names = [name for name in ("subscribe", "subscribepattern", "assign") if given.get(name)]
    if len(names) != 1:
        raise OptionError("Set exactly one of the options subscribe, subscribePattern and assign.")
    value = given[names[0]]
    if names[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not topics:
            raise OptionError("Option 'subscribe' contains no topic.")
        return Selection(topics=topics)
    if names[0] == "subscribepattern":
        try:
            re.compile(value)
        except re.error as error:
            raise OptionError(f"subscribePattern={value!r} is not a regular expression: {error}.") from None
        return Selection(pattern=value)
    assigned = _json(value, "assign")
    partitions = []
    for topic, numbers in assigned.items():
        if not isinstance(numbers, list) or not all(isinstance(partition, int) for partition in numbers):
            raise OptionError("Option 'assign' looks like {\"topic\": [0, 1]}.")
        partitions += [TopicPartition(topic, partition) for partition in numbers]
    return Selection(partitions=tuple(partitions))


def _point(given: Mapping[str, str], which: str, *, default: int, last: bool, streaming: bool) -> Point:
    # The precedence of Spark's connector: one time, times, offsets.
    time = given.get(f"{which}timestamp")
    if time is not None:
        return Point(time_ms=_time(time, f"{which}Timestamp"))
    times = given.get(f"{which}offsetsbytimestamp")
    if times is not None:
        return Point(everywhere=default, times_ms=_numbers(times, f"{which}OffsetsByTimestamp"))
    text = given.get(f"{which}offsets")
    if text is None:
        return Point(everywhere=default)
    word = text.strip().lower()
    if word == "latest":
        if not last and not streaming:
            raise OptionError("startingOffsets=latest leaves nothing for a batch query to read.")
        return Point(everywhere=LATEST)
    if word == "committed" and not last:
        reset = given.get("auto.offset.reset", "earliest")
        if not streaming or not given.get("group.id") or reset not in ("earliest", "latest"):
            raise OptionError(
                "startingOffsets=committed is for streams with a group.id; auto.offset.reset covers new partitions."
            )
        return Point(everywhere=EARLIEST if reset == "earliest" else LATEST)
    if word == "earliest":
        if last:
            raise OptionError("endingOffsets=earliest leaves nothing to read.")
        return Point(everywhere=EARLIEST)
    offsets = _numbers(text, f"{which}Offsets")
    nothing = EARLIEST if last else None if streaming else LATEST
    if nothing in offsets.values():
        raise OptionError(f"{which}Offsets has {nothing}, which leaves nothing for a batch query to read.")
    return Point(everywhere=LATEST if last else EARLIEST, offsets=offsets)


def _numbers(text: str, name: str) -> dict[TopicPartition, int]:
    by_partition: dict[TopicPartition, int] = {}
    for topic, values in _json(text, name).items():
        if topic.startswith("@"):
            # Entries of this source's checkpoints that are not offsets.
            continue
        if not isinstance(values, dict):
            raise OptionError(f'Option {name!r} looks like {{"topic": {{"0": 23}}}}.')
        for partition, value in values.items():
            if not partition.isdecimal() or not isinstance(value, int):
                raise OptionError(f'Option {name!r} looks like {{"topic": {{"0": 23}}}}.')
            by_partition[TopicPartition(topic, int(partition))] = value
    return by_partition


def _json(text: str, name: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise OptionError(f"Option {name!r} is not JSON: {error}.") from None
    if not isinstance(parsed, dict):
        raise OptionError(f"Option {name!r} is not a JSON object.")
    return parsed


def _time(text: str, name: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"Option {name!r} is {text!r}, not milliseconds since 1970.")
    return int(text)


def _data_loss(given: Mapping[str, str]) -> str:
    policy = given.get("ondataloss")
    if policy is None:
        return "fail" if boolean(given, "failondataloss", True) else "earliest"
    if policy not in ("fail", "earliest", "report"):
        raise OptionError(f"onDataLoss={policy!r} is none of fail, earliest and report.")
    return policy
