"""Columns of encrypted values: the encryption of `ottla.encryption` for DataFrames.

    from ottla.spark.encryption import decrypt

    orders = spark.read.format("ottla").option(...).load()
    orders.select(decrypt("value", {"encryption.key.file": "/etc/ottla/keys.json"}))

Executors need the key service: the file of keys at the same path, or the address of Vault.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.encryption.settings import EncryptionSettings, make_service

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.encryption.serializers import DecryptingDeserializer, EncryptingSerializer

__all__ = ["decrypt", "encrypt", "try_decrypt", "try_encrypt"]

Given = tuple[tuple[str, str], ...]
# Converts one value of a topic.
Convert = Callable[[str, bytes], bytes | None]
TRIED = "struct<data: binary, error: string>"


def encrypt(column: Column | str, settings: Mapping[str, str], *, topic: Column | str) -> Column:
    """The column as ciphertext for a topic: its name as text, or a column of names. Settings are `encryption.*`."""
    return _column(_encrypt_of, column, settings, topic, tries=False)


def decrypt(column: Column | str, settings: Mapping[str, str], *, topic: Column | str | None = None) -> Column:
    """The column in plain text. Without `topic` it is the column of that name. A wrong value fails the query."""
    return _column(_decrypt_of, column, settings, _column_of_topics() if topic is None else topic, tries=False)


def try_encrypt(column: Column | str, settings: Mapping[str, str], *, topic: Column | str) -> Column:
    """A struct of the ciphertext (`data`) or of the reason why there is none (`error`)."""
    return _column(_encrypt_of, column, settings, topic, tries=True)


def try_decrypt(column: Column | str, settings: Mapping[str, str], *, topic: Column | str | None = None) -> Column:
    """A struct of the plain text (`data`) or of the reason why there is none (`error`)."""
    return _column(_decrypt_of, column, settings, _column_of_topics() if topic is None else topic, tries=True)


def _column_of_topics() -> Column:
    from pyspark.sql import functions

    return functions.col("topic")


def _column(
    make: Callable[[Given], Convert],
    column: Column | str,
    settings: Mapping[str, str],
    topic: Column | str,
    *,
    tries: bool,
) -> Column:
    import pyarrow
    from pyspark.sql import functions

    _check(settings, encrypts=make is _encrypt_of)
    given = tuple(sorted((str(name), str(text)) for name, text in settings.items()))

    def convert(values: pyarrow.Array, topics: pyarrow.Array) -> pyarrow.Array:
        return _converted(make(given), values, topics, tries=tries)

    convert.__annotations__ = {"values": pyarrow.Array, "topics": pyarrow.Array, "return": pyarrow.Array}
    function: Any = functions.arrow_udf(convert, TRIED if tries else "binary")
    values = functions.col(column) if isinstance(column, str) else column
    result: Column = function(values.cast("binary"), functions.lit(topic) if isinstance(topic, str) else topic)
    return result


def _check(settings: Mapping[str, str], *, encrypts: bool) -> None:
    """Wrong settings fail here, in the driver, and not in the first task."""
    parsed = EncryptionSettings.of(settings)
    if parsed.headers:
        raise ValueError("encryption.headers has no effect on columns: encrypt values, or headers in a producer.")
    if encrypts and not parsed.key_name:
        raise ValueError("encryption.key.name is missing: name the key to encrypt with.")
    make_service(parsed).close()


def _converted(convert: Convert, values: Any, topics: Any, *, tries: bool) -> Any:
    import pyarrow

    from ottla.serdes.protocol import SerializationError
    from ottla.serdes.registry_client import is_registry_failure

    results: list[Any] = []
    for value, topic in zip(values.to_pylist(), topics.to_pylist(), strict=True):
        try:
            data = None if value is None else convert(topic, value)
            results.append({"data": data, "error": None} if tries else data)
        except SerializationError as error:
            # During an outage of the key service the value may be good: the task fails, and the batch is repeated.
            if not tries or is_registry_failure(error):
                raise
            results.append({"data": None, "error": error.reason})
    kind = pyarrow.binary()
    return pyarrow.array(results, pyarrow.struct([("data", kind), ("error", pyarrow.string())]) if tries else kind)


def _encrypt_of(given: Given) -> Convert:
    return _serializer(given).serialize


def _decrypt_of(given: Given) -> Convert:
    return _deserializer(given).deserialize


# Workers live for many tasks: their data keys do as well.
@functools.lru_cache(maxsize=16)
def _serializer(given: Given) -> EncryptingSerializer[bytes]:
    from ottla.encryption.serializers import EncryptingSerializer
    from ottla.serdes import BytesSerializer

    serializer = EncryptingSerializer(BytesSerializer())
    serializer.configure(dict(given), is_key=False)
    return serializer


@functools.lru_cache(maxsize=16)
def _deserializer(given: Given) -> DecryptingDeserializer[bytes]:
    from ottla.encryption.serializers import DecryptingDeserializer
    from ottla.serdes import BytesDeserializer

    deserializer = DecryptingDeserializer(BytesDeserializer())
    deserializer.configure(dict(given), is_key=False)
    return deserializer
