"""What a role must not see of a record."""

from __future__ import annotations

from typing import Any

import pytest

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
