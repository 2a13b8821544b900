"""The latest schema of a subject, as the columns of a typed table."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ottla.lake.columns import META_SCHEMA
from ottla.lake.errors import LakeError, SchemaMissing
from ottla.lake.shapes import VALUE
from ottla.serdes.registry_client import RegisteredSchema, RegistryClientError, quoted, registry_client

__all__ = ["SubjectSchema", "subject_schema"]


@dataclass(frozen=True, slots=True)
class SubjectSchema:
    registered: RegisteredSchema
    columns: pa.Schema
    is_record: bool
    aliases: Mapping[str, str]
    """New names of fields by their earlier names."""


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
    for field in fields:
        _check_storable(field.name, field.type, subject)
    columns = pa.schema([*META_SCHEMA, *(pa.field(field.name, field.type) for field in fields)])
    if registered.schema.schema_type == "PROTOBUF":
        aliases = _earlier_names(tuple(sorted(registry.items())), registered)
    else:
        aliases = _avro_aliases(registered)
    return SubjectSchema(registered, columns, is_record, aliases)


def _check_storable(name: str, arrow: pa.DataType, subject: str) -> None:
    """Raises LakeError for a type that Parquet files and tables do not have."""
    if pa.types.is_null(arrow) or (pa.types.is_struct(arrow) and not arrow.num_fields):
        kind = "has no fields" if pa.types.is_struct(arrow) else "is always null"
        raise LakeError(f"The field {name} of subject {subject} {kind}: a table has no column for it.")
    if pa.types.is_map(arrow):
        _check_storable(f"{name}.value", arrow.item_type, subject)
    elif pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        _check_storable(f"{name}.element", arrow.value_type, subject)
    elif pa.types.is_struct(arrow):
        for field in arrow:
            _check_storable(f"{name}.{field.name}", field.type, subject)


def _avro_aliases(registered: RegisteredSchema) -> Mapping[str, str]:
    if registered.schema.schema_type != "AVRO":
        # JSON Schema has no earlier names of a property.
        return {}
    avro: Any = json.loads(registered.schema.text)
    fields = avro.get("fields", ()) if isinstance(avro, dict) else ()
    names = {field["name"] for field in fields}
    return {alias: field["name"] for field in fields for alias in field.get("aliases", ()) if alias not in names}


@functools.lru_cache(maxsize=64)
def _earlier_names(settings: tuple[tuple[str, str], ...], registered: RegisteredSchema) -> Mapping[str, str]:
    """The fields of a Protobuf message by their names in earlier versions of the subject, matched by field number."""
    from ottla.serdes.protobuf import message_class

    client = registry_client(dict(settings))
    try:
        latest = message_class(client, registered.schema, [0]).DESCRIPTOR  # type: ignore[attr-defined]
        renamed: dict[str, str] = {}
        for version in client.call("GET", f"/subjects/{quoted(registered.subject)}/versions"):
            schema = client.version(registered.subject, version)
            if version >= registered.version or schema.schema_type != "PROTOBUF":
                continue
            schema = client.version(registered.subject, version, form="serialized")
            for field in message_class(client, schema, [0]).DESCRIPTOR.fields:  # type: ignore[attr-defined]
                present = latest.fields_by_number.get(field.number)
                if present is not None and field.name not in latest.fields_by_name and _kind(present) == _kind(field):
                    renamed[field.name] = present.name
        return renamed
    finally:
        client.close()


def _kind(field: Any) -> tuple[Any, ...]:
    """The type of a field. A number that is used again for another type is another field."""
    message = field.message_type
    return field.cpp_type, field.is_repeated, None if message is None else message.full_name
