"""Parses Spark's DDL without a session, because readers also run in executors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["parse_ddl"]

SIMPLE = {
    "boolean": "BooleanType",
    "tinyint": "ByteType",
    "byte": "ByteType",
    "smallint": "ShortType",
    "short": "ShortType",
    "int": "IntegerType",
    "integer": "IntegerType",
    "bigint": "LongType",
    "long": "LongType",
    "float": "FloatType",
    "real": "FloatType",
    "double": "DoubleType",
    "string": "StringType",
    "binary": "BinaryType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "timestamp_ntz": "TimestampNTZType",
}
TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z_][A-Za-z_0-9]*|\d+|[<>(),:])")


def parse_ddl(text: str) -> StructType:
    """`id bigint, tags array<string>, at struct<x: int>` as a struct type."""
    return _Parser(text).columns(closing=None)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = TOKEN.match(stripped, position)
            if match is None:
                raise ConfigError(f"schema cannot be read from: {text[position:]}", name="schema")
            self._tokens.append(match.group(1))
            position = match.end()
        self._place = 0

    def columns(self, closing: str | None) -> StructType:
        from pyspark.sql import types as spark

        fields = []
        while True:
            name = self._next().strip("`").replace("``", "`")
            if self._peek() == ":":
                self._next()
            kind = self._type()
            nullable = True
            if (self._peek() or "").lower() == "not":
                self._next()
                self._next()
                nullable = False
            fields.append(spark.StructField(name, kind, nullable))
            if self._peek() == ",":
                self._next()
                continue
            if self._peek() != closing:
                raise ConfigError(f"schema has something unexpected: {self._peek()}", name="schema")
            if closing is not None:
                self._next()
            return spark.StructType(fields)

    def _type(self) -> DataType:
        from pyspark.sql import types as spark

        name = self._next().lower()
        if name in SIMPLE:
            kind: DataType = getattr(spark, SIMPLE[name])()
            return kind
        if name in ("decimal", "numeric", "dec"):
            precision, scale = 10, 0
            if self._peek() == "(":
                self._next()
                precision = int(self._next())
                if self._next() == ",":
                    scale = int(self._next())
                    self._next()
            return spark.DecimalType(precision, scale)
        if name == "array":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return spark.ArrayType(element)
        if name == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return spark.MapType(key, value)
        if name == "struct":
            self._expect("<")
            return self.columns(closing=">")
        raise ConfigError(f"schema has an unknown type: {name}", name="schema")

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise ConfigError(f"schema needs {token}: {self._text}", name="schema")

    def _peek(self) -> str | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise ConfigError(f"schema ends too early: {self._text}", name="schema")
        self._place += 1
        return token
