"""A builder for the source of a Python function and the constants that it refers to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Source"]


class Source:
    """The source of one function: lines at the current indentation, unique variable names, named constants."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0
        self._constants: dict[Any, str] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def indent(self) -> None:
        self._depth += 1

    def dedent(self) -> None:
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        """A variable name that is not in use yet."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, key: Any, prefix: str, make: Callable[[], Any]) -> str:
        """The name of an object that the compiled function needs; `make` is called once per key."""
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"{prefix}{len(self._constants)}"
            self.namespace[name] = make()
        return name

    def compile(self, function: str, label: str) -> Any:
        code = compile("\n".join(self._lines), f"<{label}>", "exec")
        exec(code, self.namespace)
        return self.namespace[function]

    @property
    def line_count(self) -> int:
        return len(self._lines)

    @property
    def text(self) -> str:
        return "\n".join(self._lines)
