"""The chain of converters and transforms as tasks see it; `work.chain` implements it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["Chain", "ChainResult"]


@dataclass(frozen=True, slots=True)
class ChainResult:
    """The output of converters and transforms: good rows, and rows that failed.

    `failed` holds the rows for the dead-letter topic: binary `key` and `value` as they were read, `headers` with the
    context of the failure. It is None if there is no dead-letter topic, or if failures fail the task.
    """

    good: DataFrame
    failed: DataFrame | None = field(default=None)
    # Logs the failed records and returns their number; None unless `errors.log.enable` is set.
    report: Callable[[], int] | None = field(default=None)


class Chain(Protocol):
    """Converters, transforms and error policy of one connector."""

    def source(self, frame: DataFrame) -> ChainResult:
        """Transforms, then converters: from the reader's rows to binary key and value."""
        ...

    def keeps(self, schema: StructType) -> bool:
        """True if the chain changes no byte of a source's rows."""
        ...

    def sink(self, frame: DataFrame) -> ChainResult:
        """Converters, then transforms: from binary key and value to the writer's rows."""
        ...

    def needs(self, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The columns of a sink's topics that are read, given those that its writer reads; None means all."""
        ...

    def release(self) -> None:
        """Frees the records that were cached for the last call of `sink`. Called when the batch is written."""
        ...
