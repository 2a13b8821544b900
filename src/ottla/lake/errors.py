"""The errors of tables, by the reaction of the pipeline."""

from __future__ import annotations

from ottla.spark.tables import LakeError

__all__ = ["LakeError", "Overtaken", "SchemaMissing"]


class SchemaMissing(Exception):
    """A typed table has no schema yet. Another attempt may find one."""


class Overtaken(Exception):
    """Another pipeline has moved the table's position meanwhile: this batch is dropped, and planned again."""
