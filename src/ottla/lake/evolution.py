"""The schema of a typed Iceberg table follows the schemas of its subject.

| the schema | the table |
|---|---|
| gets a field | gets a column; earlier rows have null |
| loses a field | keeps the column; later rows have null |
| renames a field (an alias in Avro, the same number in Protobuf) | renames the column; earlier rows have it, too |
| widens a type (int to long, float to double, precision of a decimal) | widens the column |
| changes a type otherwise | is left out, with an error |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.lake.errors import LakeError
from ottla.lake.shapes import TypedShape

if TYPE_CHECKING:
    from ottla.lake.iceberg import IcebergTable
    from ottla.lake.stores import LakeTable
    from ottla.lake.subjects import SubjectSchema

__all__ = ["RENAMED", "cannot_follow", "evolve", "known_names", "typed_shape"]

RENAMED = "ottla.renamed"
"""The property of a table with the columns by the names that they had in older schemas."""


def evolve(table: IcebergTable, subject: SubjectSchema) -> None:
    """Changes the columns of the table to those of the subject, if necessary. Raises LakeError if it cannot."""
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow

    present = table.table.schema()
    names = {field.name for field in present.fields}
    # One column for each new name: a field may have had several earlier names.
    renamed = {new: old for old, new in subject.aliases.items() if old in names and new not in names}
    known = known_names(table.renamed(), subject)
    transaction = table.table.transaction()
    try:
        update = transaction.update_schema(allow_incompatible_changes=False)
        for new, old in renamed.items():
            update.rename_column(old, new)
        if renamed:
            # The union looks columns up by their present names.
            update.commit()
            update = transaction.update_schema(allow_incompatible_changes=False)
        update.union_by_name(visit_pyarrow(subject.columns, _ConvertToIcebergWithoutIDs()))
        update.commit()
    except (ValidationError, ValueError, TypeError) as error:
        raise cannot_follow(table.name, subject, str(error)) from error
    if transaction.table_metadata.schema() != present or known != table.renamed():
        transaction.set_properties({RENAMED: json.dumps(known)})
        transaction.commit_transaction()
        table.refresh()


def known_names(before: Mapping[str, str], subject: SubjectSchema) -> dict[str, str]:
    """Columns by their earlier names. No name is ever dropped: records of older schemas may come at any time."""
    aliases = subject.aliases
    return {old: aliases.get(new, new) for old, new in before.items()} | dict(aliases)


def cannot_follow(table: str, subject: SubjectSchema, reason: str) -> LakeError:
    registered = subject.registered
    return LakeError(
        f"Table {table} cannot follow version {registered.version} of subject {registered.subject}: {reason}"
    )


def typed_shape(table: LakeTable, subject: SubjectSchema, *, topic: str, registry: Mapping[str, str]) -> TypedShape:
    return TypedShape(
        topic=topic,
        columns=table.target().arrow_schema(),
        latest=subject.registered.schema,
        registry=tuple(sorted(registry.items())),
        is_record=subject.is_record,
        renamed=table.renamed(),
    )
