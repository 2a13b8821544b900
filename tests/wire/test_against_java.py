"""Our codec against Apache Kafka's own classes: requests and responses of 4.4, and the records of 4.3's logs.

Kafka reads our bytes, writes them again, which must give the same bytes, and shows as JSON what it understood.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from ottla.broker.apis import FORWARDABLE
from ottla.metadata.versions import (
    METADATA_VERSION,
    METADATA_VERSION_MIN,
    METADATA_VERSION_OF_KAFKA,
    feature_dependencies,
    feature_levels_at,
    metadata_version_name,
)
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.codec import encode
from ottla.wire.message import Message, Structure
from ottla.wire.schema import FieldSpec, fields_at
from tests.support import jars
from tests.support.java import ToolServer, unavailable_reason
from tests.wire.test_kafkas_definitions import definitions
from tests.wire.values import MESSAGES, message_at, snake_case, versions_of

pytestmark = pytest.mark.java

PROGRAMS = Path(__file__).resolve().parent / "programs"


class Kafka(NamedTuple):
    """A JVM with the classes of a release, and the messages that are compared with them."""

    server: ToolServer
    messages: list[type[Message]]


# A principal with a tagged field of Ottla: Kafka reads it as its own DefaultPrincipalData.
OWN = {"PrincipalWithGroupsData"}


@pytest.fixture(scope="module", params=["4.4", "4.3"])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """Requests and responses as the newest clients know them. Records of logs are in the jars of the broker."""
    for jar_set in (jars.CLIENTS_4_4, jars.TOOLS):
        if reason := unavailable_reason(jar_set):
            pytest.skip(f"Java tests: {reason}")
    in_clients = definitions()
    is_newest = request.param == "4.4"
    messages = [cls for cls in MESSAGES if cls.__name__ not in OWN and (cls.__name__ in in_clients) == is_newest]
    programs = [PROGRAMS / "MessageEcho.java", *([PROGRAMS / "ProtocolFacts.java"] if is_newest else [])]
    with ToolServer(programs=programs, jar_set=jars.CLIENTS_4_4 if is_newest else jars.TOOLS) as server:
        yield Kafka(server, messages)


def test_kafka_reads_what_we_write(kafka: Kafka) -> None:
    assert kafka.messages
    cases = []
    for cls in kafka.messages:
        for version in versions_of(cls):
            random = Random(f"java {cls.__name__} {version}")
            messages = [cls(), *(message_at(cls, version, random) for _ in range(2))]
            cases += [(message, version, encode(message, version)) for message in messages]
    lines = [f"{type(message).__name__} {version} {data.hex()}" for message, version, data in cases]
    result = kafka.server.run_class("MessageEcho", stdin="\n".join(lines) + "\n")
    assert result.status == 0, result.stderr
    answers = result.stdout.splitlines()
    assert len(answers) == len(cases)
    for (message, version, data), answer in zip(cases, answers, strict=True):
        where = f"{type(message).__name__} version {version}"
        assert answer.startswith("ok "), f"{where}: {answer[:500]}"
        _, echoed, text = answer.split(" ", 2)
        assert echoed == data.hex(), where
        compare(message, json.loads(text), version, where)


@pytest.mark.parametrize("kafka", ["4.4"], indirect=True)
def test_errors_features_and_what_is_forwarded_are_kafkas(kafka: Kafka) -> None:
    result = kafka.server.run_class("ProtocolFacts")
    assert result.status == 0, result.stderr
    facts: dict[str, list[list[str]]] = {}
    for line in result.stdout.splitlines():
        kind, *words = line.split(" ")
        facts.setdefault(kind, []).append(words)
    assert facts["error"] == [[str(int(code)), code.name, str(code.retriable).lower()] for code in ErrorCode]
    # A broker asks for producer ids (67) in its own name, never in a client's.
    assert {int(key) for (key,) in facts["forwardable"]} == FORWARDABLE | {67}
    names = {int(level): name for level, name, _ in facts["metadata"]}
    assert names == {level: metadata_version_name(level) for level in names}
    production = [int(level) for level, _, is_production in facts["metadata"] if is_production == "true"]
    assert (min(production), max(production)) == (METADATA_VERSION_MIN, METADATA_VERSION_OF_KAFKA)
    # The levels with which a cluster begins, for every level of metadata.version.
    for level in production:
        begins: dict[str, int] = {}
        for name, feature_level, since, _ in facts["feature"]:
            if name != "kraft.version" and int(feature_level) and int(since) <= level:
                begins[name] = int(feature_level)
        assert feature_levels_at(level) == {METADATA_VERSION: level, **begins}
    for name, feature_level, _, needs in facts["feature"]:
        ours = feature_dependencies(name, int(feature_level))
        assert needs == "{" + ", ".join(f"{other}={least}" for other, least in ours) + "}"


def compare(message: Structure, fields_shown: dict[str, Any], version: int, where: str) -> None:
    """Every field that Kafka shows has our name for it and our value; a field not shown holds its default."""
    fields = {f.name: f for f in fields_at(type(message), version) if f.present}
    for key, value in fields_shown.items():
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


def compare_value(field: FieldSpec, ours: Any, value_shown: Any, version: int, where: str) -> None:
    if field.structure is not None and ours is not None:
        ours, value_shown = (ours, value_shown) if field.is_array else ([ours], [value_shown])
        assert len(ours) == len(value_shown), where
        for mine, theirs in zip(ours, value_shown, strict=True):
            compare(mine, theirs, version, where)
    else:
        assert plain(ours) == value_shown, where


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, Uuid):
        return str(value)
    return base64.b64encode(value).decode() if isinstance(value, memoryview | bytes) else value
