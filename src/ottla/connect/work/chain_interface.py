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
    """What came out of converters and transforms: rows to go on with, and rows that failed.

    `failed` is for the dead-letter topic: binary `key` and `value` as they were read, `headers` with the context of
    the failure, when `errors.tolerance=all`; None where failures end the task.
    """

    good: DataFrame
    failed: DataFrame | None = field(default=None)
    # Logs what failed, and says how many that was; None where `errors.log.enable` does not ask for it.
    report: Callable[[], int] | None = field(default=None)


class Chain(Protocol):
    """Converters, transforms and the policy for failures of one connector, made by `ottla.connect.work.chain`."""

    def source(self, frame: DataFrame) -> ChainResult:
        """From what the reader gave to binary key and value: transforms, then converters."""
        ...

    def keeps(self, schema: StructType) -> bool:
        """Whether rows of a source go to their topics with the very bytes that they have."""
        ...

    def sink(self, frame: DataFrame) -> ChainResult:
        """From binary key and value to what the writer gets: converters, then transforms."""
        ...

    def needs(self, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Which columns of a sink's topics are looked at, when its writer looks at these; None is all of them."""
        ...

    def release(self) -> None:
        """The batch that `sink` was called for is written: what was kept of it may go."""
        ...
