"""Predicates about headers, topics and tombstones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigType, NonEmpty, Predicate, Settings
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.transforms.records import whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"]

PACKAGE = "org.apache.kafka.connect.transforms.predicates"


class _Predicate(Predicate):
    settings: Settings

    def configure(self, config: Mapping[str, str]) -> None:
        self.settings = self.config_definitions().parse(config)


class HasHeaderKey(_Predicate):
    """Records with at least one header of a name."""

    aliases = (f"{PACKAGE}.HasHeaderKey",)

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "name", ConfigType.STRING, validator=NonEmpty(), documentation="The name of the header."
        )

    def holds(self, frame: DataFrame) -> Column:
        if "headers" not in frame.columns:
            return sql.lit(False)
        name = self.settings.text("name")
        has_header = sql.exists(sql.col("headers"), lambda header: header.getField("key") == name)
        return sql.coalesce(has_header, sql.lit(False))


class RecordIsTombstone(_Predicate):
    """Records whose value is null."""

    aliases = (f"{PACKAGE}.RecordIsTombstone",)

    def holds(self, frame: DataFrame) -> Column:
        return sql.col("value").isNull()


class TopicNameMatches(_Predicate):
    """Records whose topic's name a regular expression matches as a whole."""

    aliases = (f"{PACKAGE}.TopicNameMatches",)

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "pattern",
            ConfigType.STRING,
            validator=NonEmpty(),
            documentation="The regular expression, as Java knows it.",
        )

    def holds(self, frame: DataFrame) -> Column:
        if "topic" not in frame.columns:
            return sql.lit(False)
        return sql.coalesce(sql.col("topic").rlike(whole(self.settings.text("pattern"))), sql.lit(False))
