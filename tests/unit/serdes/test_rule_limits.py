"""What the rule of a stranger can cost a consumer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ottla.serdes.rules import jsonata
from ottla.serdes.rules.contracts import Rule, RuleFailed, RuleMode

pytest.importorskip("jsonata")
NO_CALL: Any = None


def rule(expression: str) -> Rule:
    return Rule("r", "JSONATA", RuleMode.READ, expr=expression)


def test_an_endless_expression_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonata, "_SECONDS_MAX", 0.0)
    with pytest.raises(RuleFailed, match="takes longer than"):
        jsonata.jsonata_executor()(rule("($f := function($x){$f($x + 1)}; $f(0))"), NO_CALL, {})


def test_a_record_does_not_see_the_variables_of_another() -> None:
    apply, expression = jsonata.jsonata_executor(), rule("$seen := $exists($seen)")
    assert [apply(expression, NO_CALL, {}) for _ in range(3)] == [False, False, False]


def test_threads_do_not_get_the_records_of_each_other() -> None:
    apply, expression = jsonata.jsonata_executor(), rule("{'n': $sum([1..300].($$.n)) / 300}")
    wrong: list[Any] = []

    def work(number: int) -> None:
        wrong.extend(found for _ in range(20) if (found := apply(expression, NO_CALL, {"n": number})) != {"n": number})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
