"""The filters of `consume`: by key, by header, and by an expression over a record.

An expression has Python's syntax for comparisons, `and`, `or`, `not`, `in` and arithmetic. `json.customer.country`
reads the value as JSON; a field that does not exist is None. Only the names in `_NAMES`, the functions in `_FUNCTIONS`
and the methods in `_METHODS` can be used. An expression that fails for a record, such as `json.amount > 5` where the
amount is a text, does not match that record.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from ottla.cli.failures import suggestion
from ottla.client.consumer import ConsumedRecord

__all__ = ["RecordFilter", "make_filter"]

RecordFilter = Callable[[ConsumedRecord], bool]

_NAMES = ("key", "value", "json", "headers", "topic", "partition", "offset", "timestamp", "null", "true", "false")
_METHODS = frozenset({"startswith", "endswith", "lower", "upper", "strip", "split", "get"})
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "int": int,
    "float": float,
    "str": str,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}
_ALLOWED = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Mod,
    ast.Compare,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.In,
    ast.NotIn,
    ast.Is,
    ast.IsNot,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Subscript,
    ast.Attribute,
    ast.Call,
    ast.Tuple,
    ast.List,
)


def make_filter(
    *, keys: Iterable[str] = (), headers: Iterable[str] = (), expressions: Iterable[str] = ()
) -> RecordFilter | None:
    """A record matches if it has one of the keys, all headers, and all expressions are true. None without filters."""
    wanted_keys = {key.encode() for key in keys}
    tests: list[RecordFilter] = []
    if wanted_keys:
        tests.append(lambda record: record.key in wanted_keys)
    tests += [_header_filter(header) for header in headers]
    tests += [_expression_filter(text) for text in expressions]
    if not tests:
        return None
    return lambda record: all(test(record) for test in tests)


def _header_filter(text: str) -> RecordFilter:
    """`NAME` or `NAME=VALUE`."""
    name, has_value, value = text.partition("=")
    if not name:
        raise ValueError(f"--header {text!r} does not look like NAME or NAME=VALUE.")
    content = value.encode()
    if not has_value:
        return lambda record: any(header == name for header, _ in record.headers)
    return lambda record: any(header == name and header_value == content for header, header_value in record.headers)


def _expression_filter(text: str) -> RecordFilter:
    code = _compiled(text)
    names = set(code.co_names)

    def test(record: ConsumedRecord) -> bool:
        try:
            return bool(eval(code, _values(record, names)))
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
            return False

    return test


def _values(record: ConsumedRecord, names: set[str]) -> dict[str, Any]:
    """The values of the names that the expression uses; the value is parsed as JSON only for an expression about it."""
    values: dict[str, Any] = {
        "__builtins__": {},
        "null": None,
        "true": True,
        "false": False,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "_field": _field,
        **_FUNCTIONS,
    }
    if "headers" in names:
        values["headers"] = {name: _text(content) for name, content in record.headers}
    if "json" in names:
        values["json"] = json.loads(record.value) if record.value is not None else None
    return values


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def _field(value: Any, name: Any) -> Any:
    """A member of an object, or an element of a list; None if it does not exist."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list | str) and isinstance(name, int):
        return value[name] if -len(value) <= name < len(value) else None
    return None


def _compiled(text: str) -> CodeType:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(f"--filter {text!r} is not an expression: {reason}.") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"--filter {text!r} has a {type(node).__name__}, which a filter cannot use.")
        if isinstance(node, ast.Name) and node.id not in _NAMES and node.id not in _FUNCTIONS:
            raise ValueError(_unknown_name(text, node.id))
        if isinstance(node, ast.Call):
            _check_call(text, node)
    whole = ast.fix_missing_locations(_Fields().visit(tree))
    return compile(whole, "--filter", "eval")


def _check_call(text: str, call: ast.Call) -> None:
    if call.keywords:
        raise ValueError(f"--filter {text!r}: functions have no named arguments.")
    if isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS:
        return
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        return
    called = ast.unparse(call.func)
    known = ", ".join([*_FUNCTIONS, *(f".{name}" for name in sorted(_METHODS))])
    raise ValueError(f"--filter {text!r} calls {called!r}; it can call {known}.")


def _unknown_name(text: str, name: str) -> str:
    hint = suggestion(name, [*_NAMES, *_FUNCTIONS]) or f" The names are {', '.join(_NAMES[:-3])}; texts need quotes."
    return f"--filter {text!r} has the unknown name {name!r}.{hint}"


class _Fields(ast.NodeTransformer):
    """Replaces `a.b` and `a["b"]` by a call that returns None for a missing member; methods stay."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        node.args = [self.visit(argument) for argument in node.args]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._member(node.value, ast.Constant(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._member(node.value, self.visit(node.slice))

    def _member(self, value: ast.expr, name: ast.expr) -> ast.AST:
        return ast.Call(func=ast.Name("_field", ast.Load()), args=[self.visit(value), name], keywords=[])
