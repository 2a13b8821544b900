"""`latest.compatibility.strict`: a value is written with the latest version only if its readers can read the value."""

from __future__ import annotations

from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, SchemaText

__all__ = ["check_latest"]


def check_latest(client: RegistryClient, own: SchemaText, latest: RegisteredSchema, form: str) -> None:
    """Raises ValueError if readers of the latest version could not read data of the value's own schema."""
    # Imported here: parsers of schemas take long to import, and this setting is rare.
    from ottla.serdes.formats import InvalidSchema, ParsedSchema, SchemaSource, parse
    from ottla.serdes.schema_serde import referenced_texts

    def parsed(schema: SchemaText) -> ParsedSchema:
        texts = referenced_texts(client, schema, form)
        references = tuple((name, referenced.text) for name, referenced in texts.items())
        return parse(SchemaSource(schema.schema_type, schema.text, references))

    advice = "; register a compatible version, or set latest.compatibility.strict=false"
    latest_name = f"the latest version {latest.version} of {latest.subject}"
    if own.schema_type != latest.schema.schema_type:
        raise ValueError(
            f"{latest_name} is a schema of type {latest.schema.schema_type}, not {own.schema_type}{advice}"
        )
    try:
        problems = parsed(latest.schema).problems_reading(parsed(own.of_subject(latest.subject)))
    except InvalidSchema as error:
        raise ValueError(f"its schema cannot be compared with {latest_name}: {error}{advice}") from error
    if problems:
        raise ValueError(f"its schema is not compatible with {latest_name}: {'; '.join(problems)}{advice}")
