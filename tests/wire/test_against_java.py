"""Our codec against Apache Kafka's own classes: requests, responses, and the records of its logs, which kio lacks.

Kafka reads our bytes, writes them again, which must give the same bytes, and shows as JSON what it understood.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.model.ids import Uuid
from ottla.wire.codec import encode
from ottla.wire.message import Structure
from ottla.wire.schema import FieldSpec, fields_at
from tests.support.java import ToolServer, unavailable_reason
from tests.wire.values import MESSAGES, message_at, versions_of

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).resolve().parent / "programs" / "MessageEcho.java"


@pytest.fixture(scope="module")
def java() -> Iterator[ToolServer]:
    if reason := unavailable_reason():
        pytest.skip(f"Java tests: {reason}")
    with ToolServer(programs=[PROGRAM]) as server:
        yield server


def test_kafka_reads_what_we_write(java: ToolServer) -> None:
    cases = []
    for cls in MESSAGES:
        for version in versions_of(cls):
            random = Random(f"java {cls.__name__} {version}")
            messages = [cls(), *(message_at(cls, version, random) for _ in range(2))]
            cases += [(message, version, encode(message, version)) for message in messages]
    lines = [f"{type(message).__name__} {version} {data.hex()}" for message, version, data in cases]
    result = java.run_class("MessageEcho", stdin="\n".join(lines) + "\n")
    assert result.status == 0, result.stderr
    answers = result.stdout.splitlines()
    assert len(answers) == len(cases)
    for (message, version, data), answer in zip(cases, answers, strict=True):
        where = f"{type(message).__name__} version {version}"
        assert answer.startswith("ok "), f"{where}: {answer[:500]}"
        _, echoed, text = answer.split(" ", 2)
        assert echoed == data.hex(), where
        compare(message, json.loads(text), version, where)


def compare(message: Structure, shown: dict[str, Any], version: int, where: str) -> None:
    """Every field that Kafka shows has our name for it and our value; a field not shown holds its default."""
    fields = {f.name: f for f in fields_at(type(message), version) if f.present}
    for key, value in shown.items():
        name = snake_case(key)
        if name.endswith("_size_in_bytes") and name not in fields:
            # Records are shown by their size alone.
            name = name.removesuffix("_size_in_bytes")
            assert value == len(getattr(message, name)), f"{where} {name}"
        else:
            compare_value(fields[name], getattr(message, name), value, version, f"{where} {name}")
        del fields[name]
    for name, field in fields.items():
        value = getattr(message, name)
        assert field.tag is not None or value is None, f"{where} does not show {name}"


def compare_value(field: FieldSpec, ours: Any, shown: Any, version: int, where: str) -> None:
    if field.structure is not None and ours is not None:
        ours, shown = (ours, shown) if field.is_array else ([ours], [shown])
        assert len(ours) == len(shown), where
        for mine, theirs in zip(ours, shown, strict=True):
            compare(mine, theirs, version, where)
    else:
        assert plain(ours) == shown, where


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, Uuid):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, memoryview | bytes) else value


def snake_case(key: str) -> str:
    key = key.replace("kRaft", "kraft").replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()
