"""Paths to nested fields (KIP-821), values written in configurations, and schemas as DDL."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.api import ConfigError
from ottla.connect.plugins.connectors.ddl import parse_ddl
from ottla.connect.plugins.transforms.literals import parse_literal
from ottla.connect.plugins.transforms.paths import parse_path


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ["a"]),
        ("a.b.c", ["a", "b", "c"]),
        ("`a.b`.c", ["a.b", "c"]),
        ("a.`b.c`", ["a", "b.c"]),
        ("a`b.c", ["a`b", "c"]),
        ("`a`b`", ["a`b"]),
        (r"`a\`.b`.c", ["a`.b", "c"]),
        ("a.", ["a", ""]),
    ],
)
def test_paths(text: str, steps: list[str]) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize("text", ["`a", "`a.b", r"`a\`"])
def test_a_backtick_that_is_not_closed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("12", 12, "int8"),
        ("-300", -300, "int16"),
        ("40000", 40000, "int32"),
        ("5000000000", 5_000_000_000, "int64"),
        ("1.5", 1.5, "float"),
        ("0.1", 0.1, "double"),
        ("true", True, "boolean"),
        ("TRUE", "TRUE", "string"),
        ("12a", "12a", "string"),
        ("null", None, "string"),
    ],
)
def test_literals(text: str, value: Any, kind: str) -> None:
    literal, schema = parse_literal(text)
    assert (literal, schema.type) == (value, kind)


def test_ddl_is_read_as_spark_reads_it() -> None:
    text = "id BIGINT NOT NULL, `a b` string, t array<map<string, double>>, s struct<x: int, y: decimal(10,2)>"
    assert parse_ddl(text).simpleString() == (
        "struct<id:bigint,a b:string,t:array<map<string,double>>,s:struct<x:int,y:decimal(10,2)>>"
    )
    for wrong in ("id", "id blob", "id array<int", "id int,", "a int b int"):
        with pytest.raises(ConfigError):
            parse_ddl(wrong)
