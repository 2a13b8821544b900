"""Bounds on the cost of untrusted rules for a consumer."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import pytest

from ottla.serdes.registry_client import SchemaText
from ottla.serdes.rules import jsonata, limits
from ottla.serdes.rules.cel import cel_executors
from ottla.serdes.rules.contracts import Rule, RuleCall, RuleFailed, RuleMode

pytest.importorskip("jsonata")
pytest.importorskip("celpy")
NO_CALL: Any = None


def rule(expression: str) -> Rule:
    return Rule("r", "JSONATA", RuleMode.READ, expr=expression)


def test_an_endless_expression_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_SECONDS_MAX", 0.0)
    with pytest.raises(RuleFailed, match="takes longer than"):
        jsonata.jsonata_executor()(rule("($f := function($x){$f($x + 1)}; $f(0))"), NO_CALL, {})


@pytest.mark.parametrize("macro", ["all(x, {} && x > -1)", "map(x, {})", "exists(x, {} && x < 0)"])
def test_loops_within_loops_of_cel_are_stopped(macro: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_SECONDS_MAX", 0.05)
    expression = "true"
    for _ in range(4):
        expression = f"message.l.{macro.replace('{}', expression)}"
    endless = Rule("r", "CEL", RuleMode.READ, expr=expression)
    with pytest.raises(RuleFailed, match="takes longer than"):
        cel_executors()["CEL"](endless, NO_CALL, {"l": list(range(1_000))})


NESTED = "[message.l]" + ".map(x, [x, x, x, x, x, x, x, x])" * 12


@pytest.mark.parametrize(
    "expression",
    [
        "[message.t]" + ".map(x, x + x)" * 40,
        "[message.l]" + ".map(x, x + x)" * 40,
        "message.l.reduce(r, x, message.t, r + r)",
        "message.l.map(x, message.l.map(y, message.l + message.l))",
        "message.l.map(x, message.l.map(y, string(message.b)))",
        "message.l.map(x, message.l.map(y, list(message.l)))",
        # Nested lists with shared elements: a comparison, a text or an error message would be huge.
        f"{NESTED} == {NESTED}",
        f"size(string({NESTED})) > 0",
        f"{NESTED}.unknown",
        f"{NESTED}.map(x, unknown(x))",
        "[{'a': message.l}]" + ".map(x, {'a': x, 'b': x, 'c': x, 'd': x})" * 20,
    ],
)
def test_an_expression_of_cel_cannot_fill_the_memory(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_SIZE_MAX", 1_000_000)
    record = {"t": "a" * 1_000, "b": b"b" * 10_000, "l": list(range(100))}
    execute = cel_executors()["CEL"]
    execute(Rule("r", "CEL", RuleMode.READ, expr="message.t + 'b' == 'b'"), NO_CALL, record)
    tracemalloc.start()
    try:
        with pytest.raises(RuleFailed, match="more than 1000000 bytes for one record"):
            execute(Rule("r", "CEL", RuleMode.READ, expr=expression), NO_CALL, record)
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


def test_a_text_of_cel_cannot_be_formatted() -> None:
    """`%` is the remainder of CEL, and Python's way to make a text of any width."""
    with pytest.raises(RuleFailed, match="no matching overload"):
        cel_executors()["CEL"](Rule("r", "CEL", RuleMode.READ, expr="'%999999999d' % 1"), NO_CALL, {})
    assert cel_executors()["CEL"](Rule("r", "CEL", RuleMode.READ, expr="7 % 4"), NO_CALL, {}) == 3


def test_large_records_are_within_the_limits_of_cel() -> None:
    record = {"t": "a" * 10_000_000, "l": list(range(1_000))}
    longer = cel_executors()["CEL"](Rule("r", "CEL", RuleMode.READ, expr="message.t + message.t"), NO_CALL, record)
    assert len(longer) == 20_000_000
    assert cel_executors()["CEL"](Rule("r", "CEL", RuleMode.READ, expr="message.l.map(x, x + 1)"), NO_CALL, record)


def test_a_regular_expression_cannot_take_exponential_time() -> None:
    apply = jsonata.jsonata_executor()
    assert apply(rule("$contains(t, /(a+)+$/)"), NO_CALL, {"t": "a" * 10_000 + "!"}) is False
    assert apply(rule("$replace(t, /(B+)c/i, 'x$1y')"), NO_CALL, {"t": "abbcd"}) == "axbbyd"
    assert apply(rule("$split(t, /^-/m)"), NO_CALL, {"t": "a\n-b"}) == ["a\n", "b"]
    with pytest.raises(RuleFailed, match=r"\(\?=b\)/ is not a regular expression of RE2"):
        apply(rule("$contains(t, /(?=b)/)"), NO_CALL, {"t": "abc"})
    cel = Rule("r", "CEL", RuleMode.READ, expr="message.t.matches('(a+)+$')")
    assert cel_executors()["CEL"](cel, NO_CALL, {"t": "a" * 10_000 + "!"}) is False


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("**.ssn", "Person.ssn", True),
        ("**.ssn", "a.b.ssn", True),
        ("*.ssn", "a.b.ssn", False),
        ("*.ssn", "b.ssn", True),
        ("Person.?sn", "Person.ssn", True),
        ("Person?ssn", "Person.ssn", False),
        ("Person.s*", "Person.s", True),
        ("**", "", True),
        ("Person", "Persons", False),
        ("**a" * 30 + "!", "a" * 1_000, False),
    ],
)
def test_patterns_of_names_take_the_time_of_their_length(pattern: str, name: str, matches: bool) -> None:
    schema = SchemaText("{}", metadata={"tags": {pattern: ["PII"]}})
    call = RuleCall(
        topic="t", is_key=False, subject="s", mode=RuleMode.READ, schema=schema, headers=(), key=None, value=None
    )
    assert bool(call.tags_of(name)) is matches


def test_a_record_does_not_see_the_variables_of_another() -> None:
    apply, expression = jsonata.jsonata_executor(), rule("$seen := $exists($seen)")
    assert [apply(expression, NO_CALL, {}) for _ in range(3)] == [False, False, False]


def test_threads_do_not_get_the_records_of_each_other() -> None:
    apply, expression = jsonata.jsonata_executor(), rule("{'n': $sum([1..300].($$.n)) / 300}")
    wrong: list[Any] = []

    def work(number: int) -> None:
        wrong.extend(
            outcome for _ in range(20) if (outcome := apply(expression, NO_CALL, {"n": number})) != {"n": number}
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
