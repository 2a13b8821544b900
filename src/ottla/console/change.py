"""Changes: the plan of a change is shown before the change is applied, in sentences and as a command."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Change", "command_line"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that a handler returns. The server applies it, unless the request is a dry run."""

    plan: list[str]
    command: str
    apply: Callable[[], Awaitable[Any]]
    # Asks the cluster whether it would accept the change, in a dry run.
    validate: Callable[[], Awaitable[Any]] | None = None
    warnings: list[str] = field(default_factory=list)
    # More fields of the answer, such as offsets before and after.
    preview: Mapping[str, Any] = field(default_factory=dict)

    # Logged instead of the command if the command has contents of records or passwords.
    logged: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"plan": self.plan, "command": self.command, "warnings": self.warnings, **self.preview}


def command_line(*words: str, options: Iterable[tuple[str, object]] = ()) -> str:
    """`ottla topics create orders --partitions 3`, quoted for a shell. Options with None are left out."""
    line = ["ottla", *words]
    for name, value in options:
        if value is None or value is False:
            continue
        line.append(name)
        if value is not True:
            line.append(str(value))
    return shlex.join(line)
