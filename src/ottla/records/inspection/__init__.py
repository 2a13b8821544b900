"""Inspects the records of a batch without decoding them, in C where it was compiled. See README.md."""

from __future__ import annotations

try:
    from ottla.records.inspection._native import inspect_records, record_spans
except ImportError:
    from ottla.records.inspection.twin import inspect_records, record_spans

    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "inspect_records", "record_spans"]
