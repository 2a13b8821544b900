"""Connectors as Kafka Connect's REST interface describes them, and the files that define them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.model.config.parse import parse_properties

__all__ = ["Connector", "TaskState", "cause_of", "connector_of", "parse_connector"]


class TaskState(NamedTuple):
    id: int
    state: str
    worker: str
    trace: str | None

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "state": self.state, "workerId": self.worker, "trace": self.trace}


class Connector(NamedTuple):
    name: str
    kind: str
    connector_class: str | None
    state: str
    worker: str
    trace: str | None
    tasks: tuple[TaskState, ...]

    @property
    def tasks_in_words(self) -> str:
        """`2 running`, `1 running, 1 failed`, `none`."""
        states = [task.state.lower() for task in self.tasks]
        return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states), reverse=True)) or "none"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.kind,
            "class": self.connector_class,
            "state": self.state,
            "workerId": self.worker,
            "trace": self.trace,
            "tasks": [task.as_json() for task in self.tasks],
        }


def connector_of(status: Mapping[str, Any], config: Mapping[str, str] | None = None) -> Connector:
    """From the answer of `/connectors/NAME/status`, and the connector's configuration if it is known."""
    own = status.get("connector") or {}
    return Connector(
        name=str(status.get("name")),
        kind=str(status.get("type") or "unknown"),
        connector_class=None if config is None else config.get("connector.class"),
        state=str(own.get("state") or "UNKNOWN"),
        worker=str(own.get("worker_id") or ""),
        trace=own.get("trace"),
        tasks=tuple(
            TaskState(int(task["id"]), str(task["state"]), str(task.get("worker_id") or ""), task.get("trace"))
            for task in status.get("tasks") or ()
        ),
    )


def cause_of(trace: str) -> str:
    """The last `Caused by:` of a Java stack trace, else its first line: one line for people."""
    causes = re.findall(r"^Caused by: (.+)$", trace, re.MULTILINE)
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    return str(causes[-1]).strip() if causes else lines[0] if lines else ""


def parse_connector(text: str, *, name: str | None = None) -> tuple[str, dict[str, str]]:
    """Name and configuration, from JSON (with or without the wrapper of `POST /connectors`) or properties."""
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ValueError(f"The file is not JSON: {error}.") from None
        inner = document.get("config")
        config = inner if isinstance(inner, dict) else document
        named = document.get("name") or config.get("name")
        settings = {str(key): _setting(value) for key, value in config.items()}
    else:
        settings = parse_properties(text)
        named = settings.get("name")
    chosen = name or named
    if not chosen:
        raise ValueError("The connector has no name: add the setting 'name', or --name.")
    settings["name"] = str(chosen)
    return str(chosen), settings


def _setting(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else json.dumps(value)
