"""Converters, transforms and error policy of one connector, made from its configuration.

A source's rows go through the transforms and then to bytes; a sink's records become typed values and then go through
the transforms. A failure is noted beside its record (`api.record_failures`) and evaluated once, at the end of the
chain. With `errors.tolerance=none` a failed record fails the batch. With `all` a failed record is left out of the
batch, and logged or sent to the dead-letter topic if that is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.connect.api import ConnectError, Converter, Predicate, Transform, record_failures
from ottla.connect.api.config_definitions import names_in
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.base import ColumnConverter
from ottla.connect.plugins.converters.encrypted import EncryptedConverter, split_settings
from ottla.connect.plugins.converters.text import SimpleHeaderConverter
from ottla.connect.plugins.transforms.base import ExpressionTransform, column_or_null
from ottla.connect.plugins.transforms.records import HEADERS_TYPE
from ottla.connect.work.chain_interface import ChainResult
from ottla.connect.work.error_policy import (
    RAW_HEADERS,
    RAW_KEY,
    RAW_TOPIC,
    RAW_VALUE,
    ErrorPolicy,
    dead_letters,
    log_failures,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from ottla.connect.plugins import Plugins

__all__ = ["ConnectorChain", "Step", "build_chain"]

DEFAULT_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A transform with its predicate."""

    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, frame: DataFrame) -> DataFrame:
        if self.predicate is None:
            return self.transform.apply(frame)
        holds = self.predicate.holds(frame)
        condition = ~holds if self.negate else holds
        if isinstance(self.transform, ExpressionTransform):
            return self.transform.apply_where(frame, condition)
        # A transform of whole frames gets the selected records; the order of records may change.
        changed = self.transform.apply(frame.filter(condition))
        return changed.unionByName(frame.filter(~condition), allowMissingColumns=True)


class ConnectorChain:
    """Implements `chain_interface.Chain`."""

    def __init__(
        self,
        *,
        key: Converter,
        value: Converter,
        steps: tuple[Step, ...] = (),
        policy: ErrorPolicy | None = None,
        connector: str = "",
        task: int = 0,
        topic: str | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.steps = steps
        self.policy = policy or ErrorPolicy()
        self._connector = connector
        self._task = task
        self._held: DataFrame | None = None
        self._topic = topic

    def source(self, frame: DataFrame) -> ChainResult:
        if "topic" not in frame.columns and self._topic is not None:
            frame = frame.withColumn("topic", sql.lit(self._topic))
        frame = record_failures.with_failures(frame)
        for step in self.steps:
            frame = step.apply(frame)
        frame = self.key.to_bytes(frame, "key")
        frame = self.value.to_bytes(frame, "value")
        return self._decided(frame)

    def keeps(self, schema: StructType) -> bool:
        """True if the chain changes no byte of a source's rows and no row can fail."""
        converters = {"key": self.key, "value": self.value}
        return not self.steps and all(
            field.name in converters and converters[field.name].keeps(field.dataType.simpleString())
            for field in schema.fields
        )

    def needs(self, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The columns of a sink's topics that are read, given those that its writer reads; None means all."""
        if columns is None or self.steps or self.policy.looks_at_failures:
            return None
        # A ciphertext is bound to its topic.
        return (*columns, "topic") if isinstance(self.value, EncryptedConverter) and "topic" not in columns else columns

    def sink(self, frame: DataFrame) -> ChainResult:
        if self.policy.looks_at_failures:
            frame = frame.withColumns(
                {
                    RAW_KEY: column_or_null(frame, "key", "binary"),
                    RAW_VALUE: column_or_null(frame, "value", "binary"),
                    RAW_HEADERS: column_or_null(frame, "headers", HEADERS_TYPE),
                    RAW_TOPIC: column_or_null(frame, "topic", "string"),
                }
            )
        if self._reads_often:
            self.release()
            self._held = frame = frame.persist()
        frame = record_failures.with_failures(frame)
        frame = self.key.from_bytes(frame, "key")
        frame = self.value.from_bytes(frame, "value")
        for step in self.steps:
            frame = step.apply(frame)
        return self._decided(frame)

    def release(self) -> None:
        """Frees the cached records of the last batch."""
        if self._held is not None:
            self._held.unpersist()
            self._held = None

    @property
    def _reads_often(self) -> bool:
        """True if a batch is evaluated more than once: caching it avoids reading the topics again."""
        looks_at_batch = any(
            isinstance(converter, ColumnConverter) and converter.looks_at_batch for converter in (self.key, self.value)
        )
        return looks_at_batch or self.policy.looks_at_failures

    def _decided(self, frame: DataFrame) -> ChainResult:
        extra = [name for name in frame.columns if name.startswith("__")]
        if self.policy.tolerates_all:
            good = frame.filter(record_failures.sound()).drop(*extra)
            if not self.policy.looks_at_failures:
                return ChainResult(good)
            return self._set_aside(good, frame.filter(~record_failures.sound()))
        failure = sql.col(record_failures.FAILURE)
        complaint = sql.concat_ws(
            " ", failure.getField("stage"), sql.lit("in"), failure.getField("plugin"), sql.lit("failed:"),
            failure.getField("message"),
        )  # fmt: skip
        # raise_error has no type of its own. The condition is true for every record that has not failed.
        sound = sql.when(record_failures.sound(), sql.lit(True)).otherwise(sql.raise_error(complaint).cast("boolean"))
        return ChainResult(frame.filter(sound).drop(*extra))

    def _set_aside(self, good: DataFrame, failed: DataFrame) -> ChainResult:
        letters = None
        if self.policy.dead_letter_topic and RAW_VALUE in failed.columns:
            letters = dead_letters(failed, self.policy, connector=self._connector, task=self._task)
        report = None
        if self.policy.logs:
            report = partial(log_failures, failed, self.policy, connector=self._connector, task=self._task)
        return ChainResult(good, letters, report)


def build_chain(config: Mapping[str, str], plugins: Plugins, *, task: int = 0) -> ConnectorChain:
    """The chain of a connector. `config` includes the worker's converters unless the connector has its own."""
    header = _converter(config, "header.converter", DEFAULT_HEADER_CONVERTER, plugins)
    return ConnectorChain(
        key=_converter(config, "key.converter", DEFAULT_CONVERTER, plugins),
        value=_converter(config, "value.converter", DEFAULT_CONVERTER, plugins),
        steps=tuple(_steps(config, plugins, header)),
        policy=ErrorPolicy.from_config(config),
        connector=config.get("name", ""),
        task=task,
        topic=config.get("topic"),
    )


def _converter(config: Mapping[str, str], name: str, default: str, plugins: Plugins) -> Converter:
    converter: Converter = plugins.make(config.get(name) or default, Converter)  # type: ignore[type-abstract]
    own, encryption = split_settings(_under(config, f"{name}."))
    is_key = name == "key.converter"
    if "schema.registry.url" in own and "subject" not in own:
        own = {**own, **_default_subject(config, is_key=is_key)}
    converter.configure(own, is_key=is_key)
    if encryption:
        if name != "value.converter":
            raise ConnectError(f"{name}.{next(iter(encryption))} cannot be set: only values can be encrypted")
        return EncryptedConverter(converter, encryption)
    return converter


def _default_subject(config: Mapping[str, str], *, is_key: bool) -> dict[str, str]:
    """The subject of a connector with one topic, as Confluent's TopicNameStrategy names it."""
    topics = names_in(config.get("topics") or config.get("topic") or config.get("kafka.topic"))
    return {"subject": f"{topics[0]}-{'key' if is_key else 'value'}"} if len(topics) == 1 else {}


def _steps(config: Mapping[str, str], plugins: Plugins, header: Converter) -> list[Step]:
    predicates = {}
    for name in names_in(config.get("predicates")):
        given = _under(config, f"predicates.{name}.")
        predicate: Predicate = plugins.make(given.get("type", ""), Predicate)  # type: ignore[type-abstract]
        predicate.configure({key: text for key, text in given.items() if key != "type"})
        predicates[name] = predicate
    steps = []
    for name in names_in(config.get("transforms")):
        given = _under(config, f"transforms.{name}.")
        transform: Transform = plugins.make(given.get("type", ""), Transform)  # type: ignore[type-abstract]
        transform.configure({key: text for key, text in given.items() if key not in ("type", "predicate", "negate")})
        if isinstance(transform, ExpressionTransform):
            transform.header_converter = header if isinstance(header, ColumnConverter) else SimpleHeaderConverter()
        wanted = given.get("predicate")
        if wanted and wanted not in predicates:
            raise ConnectError(f"transforms.{name}.predicate names {wanted}, which is no predicate of this connector")
        negate = given.get("negate", "false").lower() == "true"
        steps.append(Step(transform=transform, predicate=predicates[wanted] if wanted else None, negate=negate))
    return steps


def _under(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The settings that begin with a prefix, without the prefix."""
    return {key.removeprefix(prefix): text for key, text in config.items() if key.startswith(prefix)}
