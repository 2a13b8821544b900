"""The REST interface beside Kafka Connect's: a conversation that was held with Apache Kafka 4.3.1, held with ours.

`data/rest.json` has every call with the status and body of Kafka's answer. Sentences were left out when it was
recorded, and so were versions and the names of workers: what is compared is what programs read.
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
    each["definition"]["name"]
    for step in CONVERSATION
    if isinstance(step["answer"], dict)
    for each in step["answer"].get("configs", ())
}
# Settings whose values name classes or versions, which are ours.
_OURS = ("connector.plugin.version", "converter", "version")


@pytest.fixture(scope="module")
def broker() -> Any:
    with cluster(settings={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}) as found:
        yield found


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
            got = await _step(api, step)
            assert got == _wanted(step), f"{number}: {step['call']}"


async def _step(api: Api, step: dict[str, Any]) -> tuple[int, Any]:
    method, path = step["call"]
    got: tuple[int, Any] = (0, None)
    for _ in range(1_200 if step.get("until") else 1):
        status, answer = await api.call(
            method, path, step.get("body"), raw=step.get("raw"), content_type=step.get("type")
        )
        got = (status, _answer(method, answer if answer != "" else None))
        if got == _wanted(step):
            break
        await asyncio.sleep(0.05)
    return got


def _wanted(step: dict[str, Any]) -> tuple[int, Any]:
    return step["status"], _answer(step["call"][0], step["answer"])


def _answer(method: str, answer: Any) -> Any:
    found = _shape(answer)
    if method in ("PUT", "PATCH") and isinstance(found, dict):
        # The tasks at this moment: the new plan may be there already, or not yet.
        found.pop("tasks", None)
    return found


def _shape(value: Any, key: str = "") -> Any:
    """What is to be the same."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and {"class", "type"} <= set(value[0]):
            return sorted({each["type"] for each in value})
        return [
            _shape(each)
            for each in value
            if not isinstance(each, dict) or "importance" not in each or _is_kafkas(each["name"])
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
    return {each: _shape(inner, each) for each, inner in value.items() if each not in left_out}


def _is_kafkas(name: str) -> bool:
    """Whether Kafka has this setting; we have some more."""
    return name in _KNOWN and not name.endswith("plugin.version")


def _validation(value: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for each in value["configs"]:
        definition = each["definition"]
        if _is_kafkas(definition["name"]):
            errors = each["value"]["errors"]
            found[definition["name"]] = {
                **_definition(definition),
                "value": _value(definition["name"], each["value"]["value"]),
                "wrong": bool(errors if isinstance(errors, int) else len(errors)),
            }
    return {"groups": [group for group in value["groups"] if group != "Batches"], "configs": found}


def _definition(definition: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "type", "required", "importance", "group", "width", "display_name", "dependents")
    found = {each: definition[each] for each in kept}
    # Where a setting stands among those of a transform depends on how many there are.
    if not definition["name"].startswith("transforms."):
        found["order_in_group"] = definition["order_in_group"]
        found["default"] = _value(definition["name"], definition["default_value"])
    return found


def _value(name: str, value: str | None) -> str | None:
    return "" if name.endswith(_OURS) else value
