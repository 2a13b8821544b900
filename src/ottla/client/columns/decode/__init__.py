"""Decodes record batches to Arrow batches, without a Python object for each record. See README.md."""

from __future__ import annotations

from ottla.client.columns.decode.arrow import ArrowDecoder, columns_type, is_native

__all__ = ["ArrowDecoder", "columns_type", "is_native"]
