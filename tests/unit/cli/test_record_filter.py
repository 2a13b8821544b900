"""The filters of `ottla consume`."""

from __future__ import annotations

import pytest

from ottla.cli.logic.record_filter import make_filter
from ottla.client.consumer import ConsumedRecord

ORDER = ConsumedRecord(
    "orders", 2, 7, 1_700_000_000_000, 0, b"alice", b'{"amount": 120, "to": {"country": "CZ"}}', [("kind", b"new")], 4
)
BARE = ConsumedRecord("orders", 0, 8, -1, 0, None, None, (), 4)
BINARY = ConsumedRecord("orders", 0, 9, -1, 0, b"\xff", b"\xff{", [("kind", None)], 4)


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        ("json.amount > 100", [ORDER]),
        ("json.to.country == 'CZ'", [ORDER]),
        ("json['to']['country'] in ('CZ', 'SK')", [ORDER]),
        # A missing member is null.
        ("json.missing.deeper == null", [ORDER, BARE]),
        ("key.startswith('al') and partition == 2", [ORDER]),
        ("key == null", [BARE]),
        ("not key", [BARE]),
        ("headers.kind == 'new' or offset == 9", [ORDER, BINARY]),
        ("matches(key, '^a.*e$')", [ORDER]),
        ("len(value) > 5 and timestamp >= 1700000000000", [ORDER]),
        # Neither a text nor null can be compared with a number: these records do not match.
        ("json.to > 5", []),
        ("offset % 2 == 1", [ORDER, BINARY]),
        ("topic.upper() == 'ORDERS'", [ORDER, BARE, BINARY]),
    ],
)
def test_expressions(expression: str, accepted: list[ConsumedRecord]) -> None:
    accept = make_filter(expressions=[expression])
    assert accept is not None
    assert [record for record in (ORDER, BARE, BINARY) if accept(record)] == accepted


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("json.amount >", "is not an expression"),
        ("__import__('os').system('true')", "it can call"),
        ("value.__class__.mro()", "it can call"),
        ("[x for x in value]", "ListComp"),
        ("lambda: 1", "Lambda"),
        ("vlaue == 'x'", "Did you mean 'value'"),
        ("key == bobby", "texts need quotes"),
        ("value ** 99", "Pow"),
    ],
)
def test_expressions_that_are_refused(expression: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        make_filter(expressions=[expression])


def test_keys_and_headers() -> None:
    assert make_filter() is None
    by_key = make_filter(keys=["alice", "bob"])
    by_header = make_filter(headers=["kind=new"])
    by_name = make_filter(headers=["kind"])
    both = make_filter(keys=["bob"], headers=["kind"])
    assert by_key is not None
    assert by_header is not None
    assert by_name is not None
    assert both is not None
    assert [by_key(ORDER), by_key(BARE)] == [True, False]
    assert [by_header(ORDER), by_header(BINARY)] == [True, False]
    assert [by_name(ORDER), by_name(BINARY), by_name(BARE)] == [True, True, False]
    assert not both(ORDER)
    with pytest.raises(ValueError, match="NAME"):
        make_filter(headers=["=x"])
