"""Records of other programs in the topics of a Connect cluster: they are skipped, and what follows them is read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.consumer import ConsumedRecord
from ottla.connect.control.herder import Herder
from ottla.connect.control.resources.loggers import Loggers
from ottla.connect.control.states import State, TargetState, TaskId
from ottla.connect.control.stores.config import MemoryConfigStore, TopicConfigStore
from ottla.connect.control.stores.offsets import TopicOffsetStore
from ottla.connect.control.stores.status import TopicStatusStore

NO_OBJECTS = [b"", b"{", b"\xff", b"1", b'"text"', b"[]", b"true", b"NaN", b"[" * 100_000, b"9" * 5_000]
# In place of a field's value; a text may be the right type, so none is here.
NO_TEXTS: list[Any] = [None, 1, 1.5, float("inf"), True, [], ["a"], {"a": {}}, {"a": 1}, {"a": ["b"]}]


def record(key: bytes | None, value: bytes | None, offset: int = 0) -> ConsumedRecord:
    anything: Any = SimpleNamespace(key=key, value=value, offset=offset, topic="t", partition=0)
    return anything  # type: ignore[no-any-return]


def log(_on_record: object) -> Any:
    return SimpleNamespace(topic="t")


def values(**fields: Any) -> list[bytes]:
    """Objects without the fields, and with a wrong type for each of them."""
    wrong = [{}, *({**fields, name: other} for name in fields for other in NO_TEXTS)]
    return [json.dumps(content).encode() for content in wrong]


def test_the_config_topic_is_read_past_foreign_records() -> None:
    store = TopicConfigStore(log)
    store._on_record(record(b"connector-a", b'{"properties":{"x":"1"}}', 1))
    foreign = {
        b"connector-a": values(properties={"x": "2"}),
        b"connector-b": values(properties={"x": "2"}),
        b"task-a-0": values(properties={"x": "2"}),
        b"target-state-a": [b'{"state":"NONE"}', b'{"state":[]}', b"{}"],
        b"commit-a": [b'{"tasks":null}', b'{"tasks":"two"}', b'{"tasks":1e999}', b"{}"],
        b"tasks-fencing-a": [b'{"task-count":{}}', b"{}"],
    }
    for key, bodies in foreign.items():
        for body in [*NO_OBJECTS, *bodies]:
            store._on_record(record(key, body, 2))
    for odd in (None, b"\xff", b"task-a", b"task-a-x", b"task-", b"connector-"):
        store._on_record(record(odd, b'{"properties":1}', 2))
    assert store.state.connectors == {"a": {"x": "1"}}
    assert store.state.tasks == {}
    assert store.state.offset == 2
    store._on_record(record(b"target-state-a", b'{"state":"PAUSED"}', 3))
    assert store.state.target("a") is TargetState.PAUSED
    assert store.state.offset == 3


def test_half_a_surrogate_pair_is_a_text_like_others() -> None:
    store = TopicConfigStore(log)
    store._on_record(record(b"connector-a", b'{"properties":{"x":"\\ud800"}}'))
    assert store.state.config("a") == {"x": "\ud800"}


def test_a_level_that_does_not_exist_leaves_the_logger_alone(caplog: pytest.LogCaptureFixture) -> None:
    herder: Any = SimpleNamespace(loggers=Loggers(MemoryConfigStore()))
    Herder.on_logger(herder, "ottla.nothing", "LOUD")
    assert "LOUD" in caplog.text
    assert "ottla.nothing" not in herder.loggers.all()


def test_the_status_topic_is_read_past_foreign_records() -> None:
    store = TopicStatusStore(log)
    fields = {"state": "RUNNING", "worker_id": "w", "generation": 1, "trace": "t", "version": "v"}
    bodies = [json.dumps({**fields, "state": "NONE"}).encode()]
    for name in ("state", "worker_id"):
        bodies += [json.dumps({**fields, name: other}).encode() for other in NO_TEXTS]
    no_numbers: list[Any] = [None, "1", 1.5, float("inf"), [], {}]
    bodies += [json.dumps({**fields, "generation": other}).encode() for other in no_numbers]
    for key in (b"status-connector-a", b"status-task-a-0"):
        for body in [*NO_OBJECTS, *bodies, b"{}"]:
            store._on_record(record(key, body))
    use = [b"{}", b'{"topic":[]}', b'{"topic":{}}', b'{"topic":{"task":null,"discoverTimestamp":1}}']
    for body in [*NO_OBJECTS, *use]:
        store._on_record(record(b"status-topic-t:connector-a", body))
    for odd in (None, b"\xff", b"status-task-a", b"status-task-a-x"):
        store._on_record(record(odd, json.dumps(fields).encode()))
    assert store.connectors() == []
    assert store.topics("a") == []
    store._on_record(record(b"status-task-a-0", json.dumps(fields).encode()))
    status = store.task(TaskId("a", 0))
    assert status is not None
    assert status.state is State.RUNNING


def test_the_offsets_topic_is_read_past_foreign_records() -> None:
    store = TopicOffsetStore(log)
    keys = [b'[["a"],{}]', b"[{},{}]", b"[null,{}]", b'["a",[]]', b'["a",null]', b'["a"]', b'["a",{},1]', b"null"]
    for key in [*NO_OBJECTS, *keys]:
        store._replay(key, b'{"n":1}')
    for value in NO_OBJECTS:
        store._replay(b'["a",{"f":"x"}]', value)
    assert store._offsets == {}
    store._replay(b'["a",{"f":"x"}]', b'{"n":2}')
    assert store.get("a", {"f": "x"}) == {"n": 2}
