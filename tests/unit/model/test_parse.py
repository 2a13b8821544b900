from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.config import decode_properties, format_properties, parse_properties

# What java.util.Properties.load makes of each text.
TRICKY = [
    ("a=b", {"a": "b"}),
    ("a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("a\tb", {"a": "b"}),
    ("a = b ", {"a": "b "}),
    ("  a  :  b", {"a": "b"}),
    ("a   =   = b", {"a": "= b"}),
    ("a==b", {"a": "=b"}),
    ("a:=b", {"a": "=b"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=b", {"": "b"}),
    ("# a=b\n! c=d\n  # e=f", {}),
    ("a=b # no comment", {"a": "b # no comment"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=b\\\n   c", {"a": "bc"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a=b\\\\\\\n c", {"a": "b\\c"}),
    ("a=b\\\n# c", {"a": "b# c"}),
    ("# c\\\na=b", {"a": "b"}),
    ("\\\n# c\n\\\n  a=b", {"a": "b"}),
    ("a=b\\", {"a": "b"}),
    ("a\\ b=c", {"a b": "c"}),
    ("a\\=b=c", {"a=b": "c"}),
    ("a\\:b:c", {"a:b": "c"}),
    ("a=\\tb\\n\\r\\f", {"a": "\tb\n\r\f"}),
    ("a=\\u00e4\\u20AC", {"a": "ä€"}),
    ("a=\\ud83d\\ude00", {"a": "😀"}),
    ('a=\\z\\"', {"a": 'z"'}),
    ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
    ("a=b\\\r\n  c", {"a": "bc"}),
    ("a=b\fc", {"a": "b\fc"}),
    ("a=\u2028b", {"a": "\u2028b"}),
    ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    ("listeners=PLAINTEXT://:9092,SSL://h:1", {"listeners": "PLAINTEXT://:9092,SSL://h:1"}),
    ("path=C:\\\\data", {"path": "C:\\data"}),
    ("", {}),
    ("\n\n   \n", {}),
]


@pytest.mark.parametrize(("text", "expected"), TRICKY)
def test_lines_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=b\nc=\\uxyzw", "a=\\u 123", "\\u=1"])
def test_a_broken_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d: \\u must be followed by four hexadecimal digits"):
        parse_properties(text)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXT.filter(bool), TEXT))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@given(st.text(st.sampled_from("ab=: \\\n\r\t\f#!u0é"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except ValueError as error:
        assert "hexadecimal" in str(error)  # noqa: PT017


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_files_may_be_written_in_either_encoding(encoding: str) -> None:
    content = "# Größe\nbroker.rack=Köln\n".encode(encoding)
    assert parse_properties(decode_properties(content)) == {"broker.rack": "Köln"}
