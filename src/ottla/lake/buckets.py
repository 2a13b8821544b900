"""The partitions of tables with a row for each key."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["key_buckets"]


def key_buckets(keys: pa.Array | pa.ChunkedArray, count: int) -> pa.Array:
    """The bucket of each key by Iceberg's own function; Delta tables use the same function."""
    from pyiceberg.transforms import BucketTransform
    from pyiceberg.types import BinaryType

    return BucketTransform(count).pyarrow_transform(BinaryType())(keys)
