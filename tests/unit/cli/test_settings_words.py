"""--add-config: a word without `=` is refused, and not dropped."""

from __future__ import annotations

import pytest

from ottla.cli.logic.words import parse_settings


@pytest.mark.parametrize("text", ["cleanup.policy=compact,delete", "a=1,b", "a=[b,c", "a=[b,c],d", "a,b=1", "=1", ""])
def test_a_word_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="put a value with commas into"):
        parse_settings(text)


def test_settings_in_every_valid_form() -> None:
    text = "a=1, b=[x,y],c=,SCRAM-SHA-512=[iterations=8192,password=a=b],d=[],e=[f]g,"
    assert parse_settings(text) == {
        "a": "1",
        "b": "x,y",
        "c": "",
        "SCRAM-SHA-512": "iterations=8192,password=a=b",
        "d": "",
        "e": "[f]g",
    }
