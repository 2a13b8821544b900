"""Tags of records and fields: adding to and removing from a schema's text, searching, and propagation."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import ottla.testing
from tests.support.registries import RegistryProcess, registry_process

RECORD = {"type": "record", "name": "myrecord", "fields": [{"name": "f1", "type": "string"}]}
TEXT = json.dumps(RECORD, separators=(",", ":"))


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    with registry_process(shared_cluster.bootstrap, "--topic", topic, "--group", topic) as process:
        yield process


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:8]}"


def tags(path: str, *names: str, kind: str = "SR_RECORD") -> list[dict[str, Any]]:
    return [{"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}]


def latest(registry: RegistryProcess, subject: str) -> Any:
    return registry.get(f"/subjects/{subject}/versions/latest?findTags=*")


def changed(registry: RegistryProcess, subject: str, **body: Any) -> Any:
    status, answer = registry.ask("POST", f"/subjects/{subject}/versions/latest/tags", body)
    assert status == 200, answer
    return latest(registry, subject)


def test_tags_of_a_registration(registry: RegistryProcess, subject: str) -> None:
    registry.register(subject, TEXT)
    registry.register(subject, TEXT, schemaTagsToAdd=tags("myrecord", "TAG1", "TAG2"))
    registered = latest(registry, subject)
    assert (registered["version"], json.loads(registered["schema"])) == (
        2,
        RECORD | {"confluent:tags": ["TAG1", "TAG2"]},
    )
    assert registered["metadata"]["properties"] == {"confluent:version": "2"}
    assert registered["schemaTags"] == tags("myrecord", "TAG1", "TAG2")
    # A repeated request returns the same version.
    assert registry.register(subject, TEXT, schemaTagsToAdd=tags("myrecord", "TAG1", "TAG2")) == registered["id"]
    registry.register(subject, registered["schema"], version=3, schemaTagsToRemove=tags("myrecord", "TAG2"))
    registered = latest(registry, subject)
    assert (registered["version"], registered["schemaTags"]) == (3, tags("myrecord", "TAG1"))
    by_id = registry.get(f"/schemas/ids/{registered['id']}?findTags=TAG1&findTags=other")
    assert by_id["schemaTags"] == tags("myrecord", "TAG1")
    assert "schemaTags" not in registry.get(f"/schemas/ids/{registered['id']}?findTags=TAG2")
    # The next version inherits the tags, and adds its own.
    fields = [
        {"name": "f1", "type": "string", "confluent:tags": ["TAG2"]},
        {"name": "f2", "type": "string", "default": ""},
    ]
    registry.register(subject, json.dumps(RECORD | {"fields": fields}), propagateSchemaTags=True)
    registered = latest(registry, subject)
    assert registered["schemaTags"] == tags("myrecord", "TAG1") + tags("myrecord.f1", "TAG2", kind="SR_FIELD")
    assert registered["metadata"]["properties"] == {"confluent:version": "4"}


def test_tags_of_a_version(registry: RegistryProcess, subject: str) -> None:
    rules = {"domainRules": [{"name": "a", "type": "CEL"}, {"name": "b", "type": "CEL"}]}
    registry.register(subject, TEXT, ruleSet=rules)
    registered = changed(registry, subject, newVersion=2, tagsToAdd=tags(".myrecord.f1", "PII", kind="SR_FIELD"))
    assert (registered["version"], registered["ruleSet"]) == (2, rules)
    assert registered["schemaTags"] == tags("myrecord.f1", "PII", kind="SR_FIELD")
    registered = changed(
        registry,
        subject,
        tagsToRemove=tags("myrecord.f1", "PII", kind="SR_FIELD"),
        rulesToRemove=["a"],
        rulesToMerge={"domainRules": [{"name": "c", "type": "CEL"}]},
        metadata={"properties": {"owner": "ada"}},
    )
    assert (registered["version"], "schemaTags" in registered) == (3, False)
    assert json.loads(registered["schema"]) == RECORD
    assert [rule["name"] for rule in registered["ruleSet"]["domainRules"]] == ["b", "c"]
    assert registered["metadata"]["properties"] == {"owner": "ada", "confluent:version": "3"}


@pytest.mark.parametrize(
    ("kind", "text", "record", "field"),
    [
        ("JSON", '{"type":"object","properties":{"a":{"type":"string"}}}', "object", "object.a"),
        ("PROTOBUF", 'syntax = "proto3"; message M { message N { string a = 1; } }', "M.N", "M.N.a"),
        ("AVRO", TEXT.replace('"myrecord"', '"x.myrecord"'), "x.myrecord", "x.myrecord.f1"),
    ],
)
def test_every_language(registry: RegistryProcess, subject: str, kind: str, text: str, record: str, field: str) -> None:
    registry.register(subject, text, schemaType=kind)
    before = latest(registry, subject)
    wanted = tags(record, "R") + tags(field, "F", "G", kind="SR_FIELD")
    assert changed(registry, subject, tagsToAdd=wanted)["schemaTags"] == wanted
    after = changed(registry, subject, tagsToRemove=wanted)
    assert "schemaTags" not in after
    if kind != "PROTOBUF":
        # The schema keeps the import of Confluent's options.
        assert after["schema"] == before["schema"]


def test_what_is_refused(registry: RegistryProcess, subject: str) -> None:
    path = f"/subjects/{subject}/versions/latest/tags"
    assert registry.code("POST", path, {"tagsToAdd": tags("myrecord", "T")}) == (404, 40401)
    empty = {"metadata": {"properties": {"a": "b"}}}
    assert registry.code("POST", f"/subjects/{subject}/versions", empty) == (422, 42201)
    registry.register(subject, TEXT)
    # Without a schema the request uses the previous version's schema.
    assert registry.ask("POST", f"/subjects/{subject}/versions", empty)[0] == 200
    assert latest(registry, subject)["metadata"] == empty["metadata"]
    for body, code in (
        ({"tagsToAdd": tags("does.not.exist", "T", kind="SR_FIELD")}, 42201),
        ({"newVersion": 1, "tagsToAdd": tags("myrecord", "T")}, 42201),
        ({"tagsToAdd": tags("myrecord", "T", kind="OTHER")}, 422),
        ({"tagsToAdd": [{"tags": ["T"]}]}, 422),
        ({"tagsToAdd": "T"}, 422),
        ({"ruleSet": {}, "rulesToRemove": ["a"]}, 42210),
    ):
        assert registry.code("POST", path, body) == (422, code), body
