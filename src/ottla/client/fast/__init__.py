"""Encodes and decodes records one by one, in C where `_native` was compiled. See README.md."""

from __future__ import annotations

try:
    from ottla.client.fast._native import append_record, decode_records, partition_of_key
except ImportError:
    from ottla.client.fast.twin import append_record, decode_records, partition_of_key

    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "append_record", "decode_records", "partition_of_key"]
