"""The schema of a typed table follows the schemas of its subject.

| the schema | the table |
|---|---|
| gets a field | gets a column; earlier rows have null |
| loses a field | keeps the column; later rows have null |
| renames a field (an alias in Avro) | renames the column; earlier rows have it, too |
| widens a type (int to long, float to double, precision of a decimal) | widens the column |
| changes a type otherwise | is left out, with an error |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.lake.columns import META_SCHEMA
from ottla.lake.errors import LakeError, SchemaMissing
from ottla.lake.shapes import VALUE, TypedShape
from ottla.serdes.registry_client import RegisteredSchema, RegistryClientError

if TYPE_CHECKING:
    from ottla.lake.iceberg import IcebergTable

__all__ = ["SubjectSchema", "evolve", "subject_schema", "typed_shape"]

_RENAMED = "ottla.renamed"


@dataclass(frozen=True, slots=True)
class SubjectSchema:
    """The latest schema of a subject, as columns."""

    registered: RegisteredSchema
    columns: pa.Schema
    is_record: bool
    aliases: dict[str, str]
    """New names of fields by their earlier ones."""


def subject_schema(registry: Mapping[str, str], subject: str) -> SubjectSchema:
    """Raises SchemaMissing if there is no such subject, and LakeError if its schema has no columns."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructType

    from ottla.spark.registry import UnsupportedSchema, latest_type

    if not registry.get("schema.registry.url"):
        raise LakeError("schema.registry.url is missing: typed tables have the columns of a schema.")
    try:
        registered, spark_type = latest_type(registry, subject)
    except UnsupportedSchema as error:
        raise LakeError(f"Subject {subject} has no columns: {error}") from error
    except RegistryClientError as error:
        if error.status == 404:
            raise SchemaMissing(f"The registry has no subject {subject} yet; set subject for another name.") from error
        raise
    is_record = isinstance(spark_type, StructType)
    arrow = to_arrow_type(spark_type, timezone="UTC")
    fields = list(arrow) if is_record else [pa.field(VALUE, arrow)]
    clash = sorted({field.name for field in fields} & set(META_SCHEMA.names))
    if clash:
        raise LakeError(f"The schema of subject {subject} has a field {clash[0]}, which is a column of every table.")
    columns = pa.schema([*META_SCHEMA, *(pa.field(each.name, each.type) for each in fields)])
    return SubjectSchema(registered, columns, is_record, _aliases(registered))


def evolve(table: IcebergTable, subject: SubjectSchema) -> None:
    """Changes the columns of the table, if necessary. Raises LakeError if they cannot follow."""
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow

    present = table.table.schema()
    names = {field.name for field in present.fields}
    renamed = {old: new for old, new in subject.aliases.items() if old in names and new not in names}
    # An earlier name stays known: records of older schemas may come at any time.
    aliases = subject.aliases
    known = {old: aliases.get(new, new) for old, new in _known_names(table).items()} | aliases
    transaction = table.table.transaction()
    try:
        update = transaction.update_schema(allow_incompatible_changes=False)
        for old, new in renamed.items():
            update.rename_column(old, new)
        if renamed:
            # The union looks columns up by their present names.
            update.commit()
            update = transaction.update_schema(allow_incompatible_changes=False)
        update.union_by_name(visit_pyarrow(subject.columns, _ConvertToIcebergWithoutIDs()))
        update.commit()
    except (ValidationError, ValueError, TypeError) as error:
        raise LakeError(
            f"Table {table.name} cannot follow version {subject.registered.version} of subject "
            f"{subject.registered.subject}: {error}"
        ) from error
    if transaction.table_metadata.schema() != present or known != _known_names(table):
        transaction.set_properties({_RENAMED: json.dumps(known)})
        transaction.commit_transaction()
        table.refresh()


def typed_shape(table: IcebergTable, subject: SubjectSchema, *, topic: str, registry: Mapping[str, str]) -> TypedShape:
    return TypedShape(
        topic=topic,
        columns=_arrow_schema(table),
        latest=subject.registered.schema,
        registry=tuple(sorted(registry.items())),
        is_record=subject.is_record,
        renamed=_known_names(table),
    )


def _arrow_schema(table: IcebergTable) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    found: pa.Schema = schema_to_pyarrow(table.table.schema(), include_field_ids=False)
    return found


def _known_names(table: IcebergTable) -> dict[str, str]:
    found: dict[str, str] = json.loads(table.table.properties.get(_RENAMED, "{}"))
    return found


def _aliases(registered: RegisteredSchema) -> dict[str, str]:
    if registered.schema.schema_type != "AVRO":
        return {}
    avro: Any = json.loads(registered.schema.text)
    fields = avro.get("fields", ()) if isinstance(avro, dict) else ()
    names = {field["name"] for field in fields}
    return {alias: field["name"] for field in fields for alias in field.get("aliases", ()) if alias not in names}
