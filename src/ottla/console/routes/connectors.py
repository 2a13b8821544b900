"""Connectors: their tasks with their last errors; pause, resume, stop and restart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.console.answers import ApiError, PageRequest, invalid, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.sensitive import ELIDED, HIDDEN, is_secret_of_connector
from ottla.console.upstream import Upstream

__all__ = ["CONNECTOR_ROUTES"]


def connect_of(call: Call) -> Upstream:
    connect = call.services.connect
    if connect is None:
        raise ApiError(404, "NOT_AVAILABLE", "The console knows no Connect worker.", "Start it with --connect URL.")
    return connect


async def _all(connect: Upstream) -> dict[str, Any]:
    statuses = await connect.ask("GET", "connectors", query={"expand": "status"})
    return statuses if isinstance(statuses, dict) else {}


async def _connectors(call: Call) -> dict[str, Any]:
    connect = connect_of(call)
    page = PageRequest.of(call.query, sortable=("name", "state", "type"))
    connectors: dict[str, Any] = await connect.ask("GET", "connectors", query={"expand": "info"})
    statuses = await _all(connect)
    items = [
        _item(name, connector.get("info") or {}, statuses.get(name, {}).get("status") or {})
        for name, connector in connectors.items()
    ]
    state = call.query.get("state", "").upper()
    rows = [
        connector
        for connector in items
        if page.matches(f"{connector['name']} {connector['class']}") and state in ("", connector["state"])
    ]
    shown = page.cut(rows, lambda connector: (str(connector[page.sort]), connector["name"]))
    return page_of(shown, len(rows), page)


def _item(name: str, info: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    tasks = status.get("tasks") or []
    connector = status.get("connector") or {}
    return {
        "name": name,
        "type": status.get("type") or info.get("type"),
        "class": (info.get("config") or {}).get("connector.class", ""),
        "state": connector.get("state", "UNASSIGNED"),
        "tasks": len(tasks),
        "failed_tasks": sum(1 for task in tasks if task.get("state") == "FAILED"),
        "worker": connector.get("worker_id"),
    }


async def _connector(call: Call) -> dict[str, Any]:
    connect, name = connect_of(call), call.part("name")
    info, status, topics, offsets = await asyncio.gather(
        connect.ask("GET", "connectors", name),
        connect.ask("GET", "connectors", name, "status", accept=404),
        connect.ask("GET", "connectors", name, "topics", accept=404),
        _offsets(connect, name),
    )
    status, config = status or {}, info["config"]
    passwords = await _passwords(connect, config.get("connector.class", ""))
    return {
        **_item(name, info, status),
        "config": {
            key: HIDDEN if is_secret_of_connector(key, value, passwords) else value for key, value in config.items()
        },
        "trace": _trace(call, status.get("connector") or {}),
        "task_list": [
            {
                "id": task.get("id"),
                "state": task.get("state"),
                "worker": task.get("worker_id"),
                "trace": _trace(call, task),
            }
            for task in status.get("tasks") or ()
        ],
        "topics": ((topics or {}).get(name) or {}).get("topics", []),
        "offsets": offsets,
    }


def _trace(call: Call, status: Mapping[str, Any]) -> str | None:
    """Messages of errors may quote records, so a role that may not see all of a record gets the kind of the error."""
    trace: str | None = status.get("trace")
    role = call.account.role
    if trace is None or (role.can_read_messages and not role.masks):
        return trace
    kind = trace.split(":", 1)[0].split(maxsplit=1)
    return f"{kind[0] if kind else 'Error'} (your role may not see its message, which may quote records)"


async def _offsets(connect: Upstream, name: str) -> list[Any]:
    try:
        answer = await connect.ask("GET", "connectors", name, "offsets", accept=404)
    except ApiError:
        # Older workers do not have this request, and a worker refuses it during a rebalance.
        return []
    return (answer or {}).get("offsets", [])


async def _passwords(connect: Upstream, plugin: str) -> frozenset[str]:
    """The keys that the connector defines as passwords; empty if the worker does not list its keys."""
    try:
        answer = await connect.ask("GET", "connector-plugins", plugin, "config") if plugin else []
    except ApiError:
        # Workers before Kafka 3.2 do not have this request, and a plug-in may be gone.
        return frozenset()
    keys = [key for key in answer if isinstance(key, dict)] if isinstance(answer, list) else []
    return frozenset(str(key.get("name")) for key in keys if key.get("type") == "PASSWORD")


def _state_change(verb: str, method: str, sentence: str) -> Route:
    async def change(call: Call) -> Change:
        connect, name = connect_of(call), call.part("name")
        query = {"includeTasks": "true", "onlyFailed": "false"} if verb == "restart" else None

        async def apply() -> Any:
            await connect.ask(method, "connectors", name, verb, query=query)
            return {"name": name, "verb": verb}

        return Change(plan=[sentence.format(name=name)], command=command_line("connect", verb, name), apply=apply)

    return Route("POST", f"/api/connectors/{{name}}/{verb}", change, Need.WRITE_SERVICE)


async def _restart_task(call: Call) -> Change:
    connect, name, task = connect_of(call), call.part("name"), call.part("task")

    async def apply() -> Any:
        await connect.ask("POST", "connectors", name, "tasks", task, "restart")
        return {"name": name, "task": task}

    return Change(
        plan=[f"Restarts task {task} of connector {name}."],
        command=command_line("connect", "restart", name, options=[("--task", task)]),
        apply=apply,
    )


def _config(call: Call) -> dict[str, str]:
    config = call.texts("config")
    if not config.get("connector.class"):
        raise invalid("The configuration needs connector.class.")
    return config


async def _put(call: Call) -> Change:
    connect, name, config = connect_of(call), call.part("name"), _config(call)
    known = await connect.ask("GET", "connectors", name, "config", accept=404)
    # A value that the API has hidden comes back hidden: the current value stays then.
    hidden = frozenset(key for key, value in config.items() if value == HIDDEN)
    config = {key: (known or {}).get(key, value) if key in hidden else value for key, value in config.items()}
    return await _saved(connect, name, config, known, hidden)


async def _create(call: Call) -> Change:
    connect, name, config = connect_of(call), call.text("name"), _config(call)
    if await connect.ask("GET", "connectors", name, "config", accept=404) is not None:
        raise ApiError(409, "UPSTREAM", f"Connector {name} exists.", "Change its configuration instead.")
    return await _saved(connect, name, config, None)


async def _saved(
    connect: Upstream,
    name: str,
    config: dict[str, str],
    known: dict[str, str] | None,
    hidden: frozenset[str] = frozenset(),
) -> Change:
    """`hidden` are the keys whose values the user has not seen: the command must not show them."""
    # The passwords of both classes: a change of the class must not reveal the passwords of the former class.
    classes = {config["connector.class"], (known or {}).get("connector.class", "")}
    passwords = hidden.union(*[await _passwords(connect, plugin) for plugin in sorted(classes)])

    async def apply() -> Any:
        return {"name": (await connect.ask("PUT", "connectors", name, "config", body=config))["name"]}

    async def validate() -> Any:
        plugin = config["connector.class"].rpartition(".")[2]
        answer = await connect.ask(
            "PUT", "connector-plugins", plugin, "config", "validate", body={"name": name, **config}
        )
        errors = [
            f"{field['value']['name']}: {error}"
            for field in answer.get("configs", ())
            for error in field["value"].get("errors", ())
        ]
        if errors:
            raise invalid("; ".join(errors[:5]))

    if known is None:
        plan = [f"Creates connector {name} of class {config['connector.class']}."]
    else:
        changed = [key for key in {**known, **config} if known.get(key) != config.get(key) and key != "name"]
        plan = [f"Changes {', '.join(sorted(changed)) or 'nothing'} of connector {name}, and restarts its tasks."]
    options: list[tuple[str, object]] = [("--name", name)]
    options += [
        ("--set", f"{key}={ELIDED if key in hidden or is_secret_of_connector(key, value, passwords) else value}")
        for key, value in config.items()
    ]
    return Change(
        plan=plan,
        command=command_line("connect", "create", options=[*options, ("--replace", known is not None)]),
        apply=apply,
        validate=validate,
    )


async def _delete(call: Call) -> Change:
    connect, name = connect_of(call), call.part("name")

    async def apply() -> Any:
        await connect.ask("DELETE", "connectors", name)
        return {"deleted": name}

    return Change(
        plan=[f"Deletes connector {name} and stops its tasks."],
        command=command_line("connect", "delete", name, "--yes"),
        apply=apply,
    )


async def _plugins(call: Call) -> dict[str, Any]:
    plugins = await connect_of(call).ask("GET", "connector-plugins")
    return {"items": plugins, "total": len(plugins), "page": 1, "size": len(plugins)}


CONNECTOR_ROUTES = (
    Route("GET", "/api/connectors", _connectors),
    Route("GET", "/api/connectors/{name}", _connector),
    Route("GET", "/api/connector-plugins", _plugins),
    Route("POST", "/api/connectors", _create, Need.WRITE_SERVICE),
    Route("PUT", "/api/connectors/{name}", _put, Need.WRITE_SERVICE),
    Route("DELETE", "/api/connectors/{name}", _delete, Need.WRITE_SERVICE),
    _state_change("pause", "PUT", "Pauses connector {name}; its tasks stay."),
    _state_change("resume", "PUT", "Resumes connector {name}."),
    _state_change("stop", "PUT", "Stops connector {name} and its tasks; its offsets stay."),
    _state_change("restart", "POST", "Restarts connector {name} and its tasks."),
    Route("POST", "/api/connectors/{name}/tasks/{task}/restart", _restart_task, Need.WRITE_SERVICE),
)
