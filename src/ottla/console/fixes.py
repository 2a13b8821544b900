"""Translates the command that repairs a finding of the doctor into the API request that does the same."""

from __future__ import annotations

import re
import shlex
from typing import Any
from urllib.parse import quote

__all__ = ["command_in", "fix_of"]

_COMMAND = re.compile(r"\bottla (?:[\w-]+)(?: [^;]*)?")

Fix = dict[str, Any]


def command_in(text: str) -> str | None:
    """The command in the advice of a finding. Commands that only show something are skipped."""
    for match in _COMMAND.finditer(text):
        command = match[0].strip().rstrip(".,")
        words = command.split()
        if len(words) > 2 and words[2] not in ("describe", "list") and words[1] not in ("log-dirs", "doctor"):
            return command
    return None


def fix_of(command: str | None) -> Fix | None:
    """None for a command that has no counterpart in the API."""
    if command is None:
        return None
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        return None
    arguments, options = _split(words)
    maker = _MAKERS.get(" ".join(arguments[:2])) or _MAKERS.get(arguments[0] if arguments else "")
    return None if maker is None else maker(arguments, options)


def _split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    arguments: list[str] = []
    options: dict[str, str] = {}
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if not word.startswith("--"):
            arguments.append(word)
        elif waiting and not waiting[-1].startswith("--") and word not in _FLAGS:
            options[word] = waiting.pop()
        else:
            options[word] = ""
    return arguments, options


_FLAGS = ("--all-topic-partitions", "--all-topics", "--execute", "--yes", "--broker-defaults")


def _elect(arguments: list[str], options: dict[str, str]) -> Fix | None:
    partitions = []
    for word in arguments[1:]:
        topic, _, number = word.rpartition(":")
        partitions.append({"topic": topic, "partition": int(number)})
    kind = options.get("--election-type", "preferred")
    return _fix("POST", "/api/elections", {"kind": kind, "partitions": partitions or None})


def _configs(_arguments: list[str], options: dict[str, str]) -> Fix | None:
    body: dict[str, Any] = {"set": {}, "unset": []}
    if "--add-config" in options:
        key, _, value = options["--add-config"].partition("=")
        body["set"][key] = value
    if "--delete-config" in options:
        body["unset"] = options["--delete-config"].split(",")
    if "--topic" in options:
        return _fix("PUT", f"/api/topics/{quote(options['--topic'], safe='')}/settings", body)
    broker = "default" if "--broker-defaults" in options else options.get("--broker")
    return None if broker is None else _fix("PUT", f"/api/brokers/{broker}/settings", body)


def _delete_group(arguments: list[str], _options: dict[str, str]) -> Fix | None:
    return _fix("DELETE", f"/api/groups/{quote(arguments[2], safe='')}", {}) if len(arguments) == 3 else None


def _reset_group(arguments: list[str], options: dict[str, str]) -> Fix | None:
    if len(arguments) != 3 or "--shift-by" not in options:
        return None
    body = {"to": "shift", "shift": int(options["--shift-by"])}
    return _fix("POST", f"/api/groups/{quote(arguments[2], safe='')}/reset", body)


def _abort(_arguments: list[str], options: dict[str, str]) -> Fix | None:
    return _fix(
        "POST",
        "/api/transactions/abort",
        {
            "topic": options["--topic"],
            "partition": int(options["--partition"]),
            "start_offset": int(options["--start-offset"]),
        },
    )


def _unregister(_arguments: list[str], options: dict[str, str]) -> Fix | None:
    return _fix("DELETE", f"/api/brokers/{options['--id']}", {}) if "--id" in options else None


def _fix(method: str, path: str, body: dict[str, Any]) -> Fix:
    return {"method": method, "path": path, "body": body}


_MAKERS = {
    "elect-leaders": _elect,
    "configs alter": _configs,
    "groups delete": _delete_group,
    "groups reset-offsets": _reset_group,
    "transactions abort": _abort,
    "cluster unregister": _unregister,
}
