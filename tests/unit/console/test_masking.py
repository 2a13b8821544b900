"""Masking: the parts of a record that a role must not see."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ottla.client.consumer import ConsumedRecord
from ottla.console.fields import FieldReader
from ottla.console.filters import make_message_filter
from ottla.console.masking import MASK, Masker, parse_mask_rules


def masked(rule: dict[str, Any], value: Any, *, is_structured: bool = True) -> Any:
    return Masker(parse_mask_rules([rule]), "orders").masked("value", value, is_structured=is_structured)[0]


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("card", {"card": 1, "name": "a"}, {"card": MASK, "name": "a"}),
        ("$.a.b", {"a": {"b": 1, "c": 2}}, {"a": {"b": MASK, "c": 2}}),
        ("items[*].price", {"items": [{"price": 1}, {"x": 2}]}, {"items": [{"price": MASK}, {"x": 2}]}),
        ("items[1]", {"items": [1, 2]}, {"items": [1, MASK]}),
        # A path without an index goes through lists.
        ("items.price", {"items": [{"price": 1}]}, {"items": [{"price": MASK}]}),
        ("*.card", {"a": {"card": 1}, "b": 3}, {"a": {"card": MASK}, "b": 3}),
        ("card", {"card": {"number": 1}}, {"card": MASK}),
        ("card", {"card": None}, {"card": None}),
        ("card", [{"card": 1}], [{"card": MASK}]),
        # One object where the rule expects a list, and lists in lists.
        ("items[*].price", {"items": {"price": 1}}, {"items": {"price": MASK}}),
        ("items[0].price", {"items": {"price": 1}}, {"items": {"price": MASK}}),
        ("items[*].price", {"items": [[{"price": 1}], {"price": 2}]}, {"items": [[{"price": MASK}], {"price": MASK}]}),
        ("a.b.c", {"a": [{"b": [{"c": 1}, {"c": 2, "d": 3}]}]}, {"a": [{"b": [{"c": MASK}, {"c": MASK, "d": 3}]}]}),
        ("[*].card", [{"card": 1}, 2], [{"card": MASK}, 2]),
        # JSON in a text of JSON.
        ("customer.card", {"customer": '{"card": 4711, "a": 1}'}, {"customer": '{"card": "•••", "a": 1}'}),
        ("customer.card", {"customer": "Ada"}, {"customer": "Ada"}),
        ("customer.card", {"customer": '{"card": 4711'}, {"customer": MASK}),
        # Encoded twice, and behind a byte order mark.
        (
            "customer.card",
            {"customer": json.dumps(json.dumps({"card": 4711}))},
            {"customer": json.dumps('{"card": "•••"}', ensure_ascii=False)},
        ),
        ("customer.card", {"customer": '\ufeff{"card": 4711}'}, {"customer": '{"card": "•••"}'}),
        ("customer.card", {"customer": '"{card: 4711'}, {"customer": MASK}),
        ("customer.card", {"customer": '"Ada", she said'}, {"customer": '"Ada", she said'}),
        # A reader of JSON sees one of the fields with the same name; a person sees both.
        ("a.card", {"a": '{"card": "4111", "card": null}'}, {"a": MASK}),
        ("a.b.card", {"a": '{"b": [{"card": "4111", "card": null}]}'}, {"a": MASK}),
        # Numbers keep their digits, which an expression may look for.
        (
            "a.card",
            {"a": '{"card": 1, "b": 47114711471147110.0}'},
            {"a": '{"card": "•••", "b": "47114711471147110.0"}'},
        ),
        ("a.card", {"a": '{"card": 1, "b": 1.5}'}, {"a": '{"card": "•••", "b": 1.5}'}),
        # Text might have the field in it.
        ("card", "card=4711", MASK),
        ("card", None, None),
    ],
)
def test_paths(path: str, value: Any, wanted: Any) -> None:
    assert masked({"path": path}, value) == wanted


def test_expressions_look_at_texts_and_numbers() -> None:
    value = {"a": ["call 555-1234"], "b": 5551234, "c": True}
    assert masked({"regex": "555-?1234", "with": "X"}, value) == {"a": ["call X"], "b": "X", "c": True}


def test_expressions_look_at_names_of_fields() -> None:
    value = {"cards": {"4711-1111": {"limit": 5}, "4711-2222": {"limit": 6}}, "name": "a"}
    cards = {MASK: {"limit": 5}, f"{MASK} (2)": {"limit": 6}}
    assert masked({"regex": "[0-9]{4}-[0-9]{4}"}, value) == {"cards": cards, "name": "a"}


RENAMING = {"regex": "[0-9]{4}|card", "in": ["value", "headers"]}


@pytest.mark.parametrize("is_first", [True, False])
def test_an_expression_that_renames_a_field_does_not_uncover_it(is_first: bool) -> None:
    hiding = {"path": "card", "in": ["value", "headers"]}
    masker = Masker(parse_mask_rules([RENAMING, hiding] if is_first else [hiding, RENAMING]), "orders")
    assert masker.masked("value", {"card": "AB-secret"}, is_structured=True) == ({MASK: MASK}, True)
    assert masker.masked_header("a", {"card": "AB-secret"}, is_structured=True) == ({MASK: MASK}, True)


@pytest.mark.parametrize("path", ["customer.card", "*.card"])
def test_an_expression_that_renames_a_field_of_a_header_does_not_uncover_it(path: str) -> None:
    masker = Masker(parse_mask_rules([RENAMING, {"path": path, "in": ["headers"]}]), "orders")
    shown, _ = masker.masked_header("customer", {"card": "AB-secret", "id": "1234"}, is_structured=True)
    assert shown == {MASK: MASK, "id": MASK}


def test_expressions_look_at_the_digits_of_large_numbers() -> None:
    assert masked({"regex": "[0-9]{17}"}, {"a": 4.711471147114711e16}) == {"a": MASK + ".000000"}


async def read(rules: list[dict[str, Any]], *, decode: str = "auto", **parts: Any) -> dict[str, Any]:
    """A record as a role with these rules sees it."""
    record = ConsumedRecord("orders", 0, 0, 0, 0, None, None, [], 0)._replace(**parts)
    return await FieldReader("orders", decode, Masker(parse_mask_rules(rules), "orders"), None).message(record)


def seen(rules: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    return asyncio.run(read(rules, **parts))


def test_names_of_headers() -> None:
    rule = {"regex": "[0-9]{4}", "in": ["headers"]}
    message = seen([rule], headers=[("card-4711", b"x"), ("card", b"4711"), ("empty-4711", None), ("a", b"b")])
    masked_headers = [(header["name"], header["value"]["value"]) for header in message["headers"]]
    assert masked_headers == [(f"card-{MASK}", "x"), ("card", MASK), (f"empty-{MASK}", None), ("a", "b")]
    assert message["masked"]
    assert all(set(header) == {"name", "value"} for header in message["headers"])
    assert not seen([rule], headers=[("a", b"b")])["masked"]
    assert not seen([{**rule, "in": ["value"]}], headers=[("card-4711", b"x")])["masked"]


def test_paths_may_begin_with_the_name_of_a_header() -> None:
    content = b'{"number": 4711, "card": 1, "a": 2}'

    def value(path: str, name: str) -> Any:
        message = seen([{"path": path, "in": ["headers"]}], headers=[(name, content)])
        return message["headers"][0]["value"]["value"]

    assert value("card", "card") == MASK
    assert value("card.number", "card") == {"number": MASK, "card": 1, "a": 2}
    assert value("card", "other") == {"number": 4711, "card": MASK, "a": 2}


@pytest.mark.parametrize("decode", ["auto", "json", "text", "hex"])
@pytest.mark.parametrize(
    "value",
    [
        # The letters of the number are escaped, and the document is too long to be read as fields.
        b'{"a": "' + b"x" * (1 << 20) + b'", "card": "\\u0034711"}',
        # Numbers in binary form.
        b"\x00\x00\x00\x00\x01\xce\x49",
        b"x" * 2000 + b"\x01",
    ],
)
def test_what_an_expression_cannot_look_at_is_hidden(value: bytes, decode: str) -> None:
    message = seen([{"regex": "4711"}], value=value, decode=decode)
    assert (message["value"]["value"], message["masked"]) == ("", True)


def test_json_that_is_too_deep_is_hidden() -> None:
    deep = b"[" * 800 + b'{"a": 4711}' + b"]" * 800
    for rule in ({"path": "a"}, {"regex": "4711"}):
        message = seen([rule], value=deep)
        assert message["masked"]
        assert "4711" not in str(message)


@pytest.mark.parametrize(
    "text",
    [
        "4711",
        '= value.customer.card == "4711"',
        "= value.items.exists(item, item.card == 4711)",
        '= value.customer.card.startsWith("47")',
        '= "4711-1" in value.cards',
        "= key == 4711",
        '= "card-4711" in headers',
        "= headers.card == 4711",
    ],
)
def test_a_filter_cannot_guess_what_is_hidden(text: str) -> None:
    pytest.importorskip("celpy")
    value = {"customer": {"card": "4711"}, "items": [{"card": 4711}], "cards": {"4711-1": 1}}
    parts = {
        "key": b"4711",
        "value": json.dumps(value).encode(),
        "headers": [("card-4711", b"x"), ("card", b"4711")],
    }
    matches = make_message_filter(text)
    assert matches is not None
    everywhere = ["key", "value", "headers"]
    assert matches(seen([], **parts))
    assert not matches(seen([{"regex": "4711", "in": everywhere}], **parts))


def test_a_filter_on_the_mask_finds_masked_records() -> None:
    pytest.importorskip("celpy")
    matches = make_message_filter(f'= value.items[0].card == "{MASK}"')
    assert matches is not None
    assert matches(seen([{"path": "items[*].card"}], value=b'{"items": [{"card": 4711}]}'))


def test_a_rule_is_about_whole_names_of_topics_and_parts() -> None:
    rules = parse_mask_rules([{"topics": "order", "path": "a"}, {"topics": "orders", "path": "a", "in": ["key"]}])
    masker = Masker(rules, "orders")
    assert masker.hides("key")
    assert not masker.hides("value")


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"path": "a", "regex": "b"},
        {"path": ""},
        {"path": "a[b]"},
        {"regex": "("},
        {"path": "a", "in": []},
        {"patj": ""},
    ],
)
def test_rules_that_make_no_sense(rule: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"mask|path"):
        parse_mask_rules([rule])
