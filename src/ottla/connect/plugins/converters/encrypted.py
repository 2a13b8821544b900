"""A converter whose bytes are encrypted in topics: any converter of values with settings `encryption.*`.

value.converter=JsonConverter
value.converter.encryption.key.name=orders
value.converter.encryption.key.file=/etc/ottla/keys.json
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.connect.api import ConnectError, Converter, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.base import STAGED, ColumnConverter, Converted
from ottla.encryption.keys import KeyServiceError
from ottla.encryption.settings import PREFIX, EncryptionSettings, make_service

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["EncryptedConverter", "split_settings"]


def split_settings(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a converter, and those of its encryption."""
    own = {key: text for key, text in config.items() if not key.startswith(PREFIX)}
    return own, {key: text for key, text in config.items() if key.startswith(PREFIX)}


class EncryptedConverter(ColumnConverter):
    """Encrypts the bytes of another converter, and decrypts them for it. Raises ConnectError for wrong settings."""

    def __init__(self, inner: Converter, given: Mapping[str, str]) -> None:
        super().__init__()
        self.inner = inner
        self._given = dict(given)
        try:
            settings = EncryptionSettings.of(given)
            make_service(settings).close()
        except (ValueError, KeyServiceError) as error:
            raise ConnectError(f"value.converter: {error}") from None
        self._can_encrypt = bool(settings.key_name)

    def to_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        from ottla.spark.encryption import try_encrypt

        frame = self.inner.to_bytes(frame, column)
        if column not in frame.columns:
            return frame
        if not self._can_encrypt:
            raise ConnectError("value.converter.encryption.key.name is missing: name the key to encrypt with")
        return self._tried(frame, column, try_encrypt(column, self._given, topic=sql.col("topic")))

    def from_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        from ottla.spark.encryption import try_decrypt

        if column not in frame.columns:
            return frame
        return self.inner.from_bytes(self._tried(frame, column, try_decrypt(column, self._given)), column)

    @property
    def looks_at_batch(self) -> bool:
        return isinstance(self.inner, ColumnConverter) and self.inner.looks_at_batch

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        raise AssertionError("to_bytes is replaced")

    def decode(self, frame: DataFrame, column: str) -> Converted:
        raise AssertionError("from_bytes is replaced")

    def _tried(self, frame: DataFrame, column: str, tried: Column) -> DataFrame:
        error = sql.col(STAGED).getField("error")
        converted = Converted(
            column=sql.col(STAGED).getField("data"), staged=tried, failed=error.isNotNull(), message=error
        )
        return self._replace(frame, column, converted)
