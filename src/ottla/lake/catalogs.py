"""New tables of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.lake.errors import LakeError
from ottla.lake.partitioning import partition_spec
from ottla.spark.tables import MODE, TOPIC

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.catalog import Catalog

__all__ = ["open_or_create"]


def open_or_create(
    catalog: Catalog,
    identifier: tuple[str, ...],
    schema: pyarrow.Schema,
    *,
    topic: str,
    mode: str = "raw",
    partition_by: Sequence[str] = (),
) -> None:
    """Makes sure that the table of the topic exists. Raises LakeError if the table is that of another topic or mode."""
    from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
    from pyiceberg.schema import assign_fresh_schema_ids

    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(identifier[:-1])
        iceberg = assign_fresh_schema_ids(visit_pyarrow(schema, _ConvertToIcebergWithoutIDs()))
        properties = {
            TOPIC: topic,
            MODE: mode,
            # A commit makes a file of metadata and a manifest; without these there would be one of each for ever.
            "write.metadata.delete-after-commit.enabled": "true",
            "commit.manifest-merge.enabled": "true",
        }
        try:
            table = catalog.create_table(
                identifier, iceberg, partition_spec=partition_spec(partition_by, iceberg), properties=properties
            )
        except TableAlreadyExistsError:
            # Another pipeline was faster.
            table = catalog.load_table(identifier)
    known = table.properties.get(TOPIC)
    if known != topic:
        owner = f"of topic {known}" if known else "of no topic"
        raise LakeError(f"Table {'.'.join(identifier)} is the table {owner}: set topic.{topic}.table to another name.")
    made_as = table.properties.get(MODE, mode)
    if made_as != mode:
        raise LakeError(
            f"Table {'.'.join(identifier)} was made with mode = {made_as}, and topic {topic} has mode = {mode} now: "
            f"set topic.{topic}.table to another name."
        )
