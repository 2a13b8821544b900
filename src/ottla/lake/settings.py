"""The settings of lake tables, from a properties file and from the topics themselves.

A key of a table (`mode`) applies to every topic, and `topic.NAME.mode` to one topic. The topic's own configuration
(`ottla.lake.mode`), which any administrator of the topic can set, overrides the first and is overridden by the second.
A misspelt key is refused with a suggestion.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ottla.lake.errors import LakeError
from ottla.spark.options import is_client_option

__all__ = ["LakeSettings", "Mode", "TableSettings", "TopicSetting", "catalog_properties", "read_settings"]


class Mode(Enum):
    OFF = "off"
    RAW = "raw"
    """A row for each record, with its bytes."""
    TYPED = "typed"
    """A row for each record, with the columns of its schema in the registry."""
    UPSERT = "upsert"
    """A row for each key, with the bytes of its last record."""
    TYPED_UPSERT = "typed-upsert"
    """A row for each key, with the columns of its last record."""

    @property
    def is_typed(self) -> bool:
        return self in (Mode.TYPED, Mode.TYPED_UPSERT)

    @property
    def is_upsert(self) -> bool:
        return self in (Mode.UPSERT, Mode.TYPED_UPSERT)


class TopicSetting:
    """Configuration keys of a topic that its table follows."""

    MODE = "ottla.lake.mode"
    PARTITION_BY = "ottla.lake.partition.by"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The table of one topic."""

    topic: str
    identifier: tuple[str, ...]
    mode: Mode
    format: str
    partition_by: tuple[str, ...]
    subject: str
    starts_at: str
    """Where a new table begins: earliest or latest."""
    on_data_loss: str
    """Records that were deleted before they were read: fail, or earliest (continue with the remaining ones)."""
    commit_interval_ms: int
    batch_records_max: int
    upsert_buckets: int
    expire_after_ms: int
    """Snapshots older than this expire by themselves; 0 for never."""
    compact_files: int
    """The number of small files of a partition from which on they are merged by themselves; 0 for never."""


@dataclass(frozen=True, slots=True)
class LakeSettings:
    properties: Mapping[str, str]
    client: Mapping[str, str]
    catalog: Mapping[str, str]
    registry: Mapping[str, str]
    spark: Mapping[str, str]
    topics: tuple[str, ...]
    """Names and patterns of topics; topics with a mode of their own come in addition."""

    def table(self, topic: str, configured: Mapping[str, str]) -> TableSettings:
        """The table of a topic with these configurations. Raises LakeError."""
        values = dict(_TABLE_KEYS)
        values |= {key: self.properties[key] for key in _TABLE_KEYS if key in self.properties}
        for key, name in (("mode", TopicSetting.MODE), ("partition.by", TopicSetting.PARTITION_BY)):
            if configured.get(name):
                values[key] = configured[name]
        prefix = f"topic.{topic}."
        values |= {key: self.properties[prefix + key] for key in _TABLE_KEYS if prefix + key in self.properties}
        return _table(topic, values)

    def selects(self, topic: str, configured: Mapping[str, str]) -> bool:
        own = self.properties.get(f"topic.{topic}.mode") or configured.get(TopicSetting.MODE)
        if own:
            return own != Mode.OFF.value
        return any(re.fullmatch(pattern, topic) for pattern in self.topics)


_TABLE_KEYS: Mapping[str, str] = {
    "mode": "raw",
    "format": "iceberg",
    "table": "",
    "namespace": "lake",
    "partition.by": "",
    "subject": "",
    "starting.offsets": "earliest",
    "on.data.loss": "fail",
    "commit.interval.ms": "10000",
    "batch.max.records": "4000000",
    "upsert.buckets": "8",
    "snapshots.expire.after.ms": "0",
    "compact.files": "0",
}
_FILE_KEYS = ("bootstrap.servers", "topics", "warehouse", "schema.registry.url")
_PREFIXES = ("catalog.", "schema.registry.", "basic.auth.", "bearer.auth.", "spark.")
_FORMATS = ("iceberg", "delta")


def read_settings(properties: Mapping[str, str]) -> LakeSettings:
    """Raises LakeError."""
    _check_keys(properties)
    if not properties.get("bootstrap.servers"):
        raise LakeError("bootstrap.servers is missing: set it to localhost:9092.")
    settings = LakeSettings(
        properties=dict(properties),
        client={key: value for key, value in properties.items() if key == "bootstrap.servers" or is_client_option(key)},
        catalog=catalog_properties(properties),
        registry={
            key: value
            for key, value in properties.items()
            if key.startswith(("schema.registry.", "basic.auth.", "bearer.auth."))
        },
        spark={key: value for key, value in properties.items() if key.startswith("spark.")},
        topics=tuple(name.strip() for name in properties.get("topics", "").split(",") if name.strip()),
    )
    for pattern in settings.topics:
        try:
            re.compile(pattern)
        except re.error as error:
            raise LakeError(f"topics has {pattern!r}, which is neither a name nor a pattern: {error}.") from None
    # Reports a wrong value now, and not with the first topic.
    settings.table("topic", {})
    for key in properties:
        if key.startswith("topic."):
            settings.table(_topic_of(key), {})
    return settings


def catalog_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of the catalog: tables in a SQLite file of the warehouse, unless the file names another.

    Raises LakeError.
    """
    catalog = {key.removeprefix("catalog."): value for key, value in properties.items() if key.startswith("catalog.")}
    warehouse = properties.get("warehouse")
    if not warehouse:
        raise LakeError("warehouse is missing: set it to a directory, or s3://bucket/path.")
    if "://" not in warehouse:
        warehouse = str(Path(warehouse).absolute())
    catalog.setdefault("type", "rest" if catalog.get("uri", "").startswith("http") else "sql")
    catalog.setdefault("warehouse", warehouse)
    if catalog["type"] == "sql" and "uri" not in catalog:
        if "://" not in warehouse:
            catalog["uri"] = f"sqlite:///{warehouse}/catalog.db"
        elif _has_iceberg_tables(properties):
            raise LakeError("A warehouse in an object store needs a catalog: set catalog.uri, and catalog.type = rest.")
        else:
            # This catalog stays empty: a Delta table is a directory.
            catalog["uri"] = "sqlite:///:memory:"
    return catalog


def _has_iceberg_tables(properties: Mapping[str, str]) -> bool:
    formats = [value for key, value in properties.items() if key.startswith("topic.") and key.endswith(".format")]
    return properties.get("format") != "delta" or any(value != "delta" for value in formats)


def _check_keys(properties: Mapping[str, str]) -> None:
    for key in properties:
        if key in _FILE_KEYS or key in _TABLE_KEYS or is_client_option(key) or key.startswith(_PREFIXES):
            continue
        if key.startswith("topic.") and _topic_of(key):
            continue
        close = difflib.get_close_matches(key, [*_TABLE_KEYS, *_FILE_KEYS], n=1)
        hint = f" Did you mean {close[0]}?" if close else " docs/lake.md lists the keys."
        raise LakeError(f"{key} is not a key of lake tables.{hint}")


def _topic_of(key: str) -> str:
    """The topic in `topic.NAME.KEY`; empty if KEY is not a key of a table."""
    rest = key.removeprefix("topic.")
    for name in sorted(_TABLE_KEYS, key=len, reverse=True):
        if rest.endswith(f".{name}"):
            return rest.removesuffix(f".{name}")
    return ""


def _table(topic: str, values: Mapping[str, str]) -> TableSettings:
    mode = Mode(_word("mode", values["mode"], [mode.value for mode in Mode]))
    fields = tuple(field.strip() for field in re.split(r",(?![^(]*\))", values["partition.by"]) if field.strip())
    name = values["table"] or re.sub(r"\W", "_", topic)
    return TableSettings(
        topic=topic,
        identifier=(*values["namespace"].split("."), name),
        mode=mode,
        format=_word("format", values["format"], _FORMATS),
        partition_by=fields,
        subject=values["subject"] or f"{topic}-value",
        starts_at=_word("starting.offsets", values["starting.offsets"], ("earliest", "latest")),
        on_data_loss=_word("on.data.loss", values["on.data.loss"], ("fail", "earliest")),
        commit_interval_ms=_number("commit.interval.ms", values, at_least=10),
        batch_records_max=_number("batch.max.records", values, at_least=1),
        upsert_buckets=_number("upsert.buckets", values, at_least=1),
        expire_after_ms=_number("snapshots.expire.after.ms", values, at_least=0),
        compact_files=_number("compact.files", values, at_least=0),
    )


def _word(name: str, value: str, allowed: tuple[str, ...] | list[str]) -> str:
    if value not in allowed:
        raise LakeError(f"{name} = {value} must be one of {', '.join(allowed)}.")
    return value


def _number(name: str, values: Mapping[str, str], *, at_least: int) -> int:
    try:
        number = int(values[name])
    except ValueError:
        raise LakeError(f"{name} = {values[name]} must be a number.") from None
    if number < at_least:
        raise LakeError(f"{name} = {number} must be {at_least} or more.")
    return number
