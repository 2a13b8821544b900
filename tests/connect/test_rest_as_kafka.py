"""The REST interface beside Kafka Connect's: replays a recorded conversation with Apache Kafka 4.3.1.

`data/rest.json` has every call with the status and body of Kafka's answer. The recording omits messages, versions and
the names of workers: only the fields that programs read are compared.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.plugins.transforms.records import RegexRouter
from ottla.testing import Cluster, cluster
from tests.support.connect_workers import Api, fake_worker, plugins_for_tests

CONVERSATION = json.loads((Path(__file__).parent / "data" / "rest.json").read_text())
_KNOWN = {
    setting["definition"]["name"]
    for step in CONVERSATION
    if isinstance(step["answer"], dict)
    for setting in step["answer"].get("configs", ())
}
# Settings whose values name classes or versions, which are ours.
_OURS = ("connector.plugin.version", "converter", "version")


@pytest.fixture(scope="module")
def broker() -> Any:
    with cluster(settings={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}) as running:
        yield running


@pytest.mark.parametrize("distributed", [True, False], ids=["distributed", "standalone"])
def test_the_same_answers_as_kafka(broker: Cluster, tmp_path: Path, distributed: bool) -> None:
    asyncio.run(_talk(broker.bootstrap, tmp_path, distributed=distributed))


async def _talk(bootstrap: str, directory: Path, *, distributed: bool) -> None:
    plugins = plugins_for_tests()
    plugins.add(RegexRouter)
    converter = "org.apache.kafka.connect.json.JsonConverter"
    async with fake_worker(
        bootstrap,
        directory,
        distributed=distributed,
        name="talk-d" if distributed else "talk-s",
        plugins=plugins,
        key_converter=converter,
        value_converter=converter,
    ) as (worker, api, _):
        await asyncio.wait_for(worker.herder.ready.wait(), 90)  # type: ignore[union-attr]
        await api.call("POST", "/connectors", {"name": "warm-up", "config": {}})
        for number, step in enumerate(CONVERSATION):
            outcome = await _step(api, step)
            assert outcome == _wanted(step), f"{number}: {step['call']}"


async def _step(api: Api, step: dict[str, Any]) -> tuple[int, Any]:
    method, path = step["call"]
    outcome: tuple[int, Any] = (0, None)
    for _ in range(1_200 if step.get("until") else 1):
        status, answer = await api.call(
            method, path, step.get("body"), raw=step.get("raw"), content_type=step.get("type")
        )
        outcome = (status, _answer(method, answer if answer != "" else None))
        if outcome == _wanted(step):
            break
        await asyncio.sleep(0.05)
    return outcome


def _wanted(step: dict[str, Any]) -> tuple[int, Any]:
    return step["status"], _answer(step["call"][0], step["answer"])


def _answer(method: str, answer: Any) -> Any:
    shape = _shape(answer)
    if method in ("PUT", "PATCH") and isinstance(shape, dict):
        # The current tasks: the new plan may not exist yet.
        shape.pop("tasks", None)
    return shape


def _shape(value: Any, key: str = "") -> Any:
    """The parts of an answer that must be equal."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and {"class", "type"} <= set(value[0]):
            return sorted({plugin["type"] for plugin in value})
        return [
            _shape(entry)
            for entry in value
            if not isinstance(entry, dict) or "importance" not in entry or _is_kafkas(entry["name"])
        ]
    if not isinstance(value, dict):
        return "" if key in ("version", "commit", "kafka_cluster_id", "task.class") and value is not None else value
    if "error_code" in value:
        return {"error_code": value["error_code"]}
    if "configs" in value:
        return _validation(value)
    if "definition" in value or {"importance", "order_in_group"} <= set(value):
        return _definition(value)
    if set(value) == {"message"}:
        return {}
    left_out = ("documentation", "trace", "worker_id", "message")
    return {name: _shape(inner, name) for name, inner in value.items() if name not in left_out}


def _is_kafkas(name: str) -> bool:
    """True if Kafka has this setting; Ottla has additional ones."""
    return name in _KNOWN and not name.endswith("plugin.version")


def _validation(value: dict[str, Any]) -> dict[str, Any]:
    settings = {}
    for setting in value["configs"]:
        definition = setting["definition"]
        if _is_kafkas(definition["name"]):
            errors = setting["value"]["errors"]
            settings[definition["name"]] = {
                **_definition(definition),
                "value": _value(definition["name"], setting["value"]["value"]),
                "wrong": bool(errors if isinstance(errors, int) else len(errors)),
            }
    return {"groups": [group for group in value["groups"] if group != "Batches"], "configs": settings}


def _definition(definition: dict[str, Any]) -> dict[str, Any]:
    keys = ("name", "type", "required", "importance", "group", "width", "display_name", "dependents")
    shape = {key: definition[key] for key in keys}
    # The position of a transform's setting depends on the number of settings.
    if not definition["name"].startswith("transforms."):
        shape["order_in_group"] = definition["order_in_group"]
        shape["default"] = _value(definition["name"], definition["default_value"])
    return shape


def _value(name: str, value: str | None) -> str | None:
    return "" if name.endswith(_OURS) else value
