"""Plug-ins that convert and change records: converters, transforms and predicates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.connect.api.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Converter", "Predicate", "Transform"]


class Converter(Plugin):
    """Converts between typed values and the bytes in topics. Keys and values have instances of their own."""

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """`config` has the settings without their prefix (`value.converter.schemas.enable` → `schemas.enable`)."""

    @abstractmethod
    def to_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with `column` as binary. Null stays null."""

    @abstractmethod
    def from_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with the binary `column` as typed values. Null stays null."""

    def keeps(self, kind: str) -> bool:
        """True if `to_bytes` changes no byte of any value of this Spark type: such rows skip the conversion."""
        return False


class Transform(Plugin):
    """Changes records, by DataFrame expressions."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings without their prefix (`transforms.x.field` → `field`)."""

    @abstractmethod
    def apply(self, frame: DataFrame) -> DataFrame:
        """The changed frame."""


class Predicate(Plugin):
    """Selects the records to which a transform applies."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings without their prefix."""

    @abstractmethod
    def holds(self, frame: DataFrame) -> Column:
        """A boolean column, never null."""
