"""Ids of schemas: one for each schema, never given twice, through imports, deletions and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.deletion import decide_delete_subject
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Record
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_mode


class Written:
    """A registry, and its topic as compaction leaves it."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.topic: dict[Any, Any] = {}

    def write(self, decided: tuple[list[Record], Any]) -> Any:
        records, answer = decided
        for record in records:
            key, value = record.encoded()
            self.topic.pop(key, None)
            self.topic[key] = value
            self.registry.state.replay(record)
        return answer

    def register(self, subject: str, **body: Any) -> Any:
        request = schema_request(body, subject)
        return self.write(decide_register(self.registry.state, self.registry.schemas, subject, request))

    def mode(self, subject: str | None, mode: str) -> None:
        self.write(decide_mode(self.registry.state, subject, mode, is_forced=True))

    def delete(self, subject: str, *, is_permanent: bool) -> None:
        self.write(decide_delete_subject(self.registry.state, subject, is_permanent=False))
        if is_permanent:
            self.write(decide_delete_subject(self.registry.state, subject, is_permanent=True))

    def restarted(self) -> Written:
        reopened = Written()
        for key, value in self.topic.items():
            reopened.registry.state.replay(Record.decode(key, value))
            if value is not None:
                reopened.topic[key] = value
        return reopened


@pytest.fixture
def written() -> Written:
    return Written()


def test_the_same_text_in_two_languages(written: Written) -> None:
    text = '{"type":"string","logicalType":"uuid"}'
    assert written.register("a", schema=text)["id"] != written.register("b", schema=text, schemaType="JSON")["id"]


def test_the_id_of_a_version_that_an_import_replaced_is_not_given_again(written: Written) -> None:
    written.mode(None, "IMPORT")
    written.register("a", schema='"int"', id=100, version=1)
    written.register("a", schema='"string"', id=5, version=1)
    written.mode(None, "READWRITE")
    after = written.restarted().register("b", schema='"bytes"')["id"]
    assert after == written.register("b", schema='"bytes"')["id"] > 100


def test_a_schema_with_two_ids_keeps_the_second(written: Written) -> None:
    written.mode(None, "IMPORT")
    first = written.register("a", schema='"int"', id=1, version=1)
    written.register("b", schema='"int"', id=2, version=1)
    written.mode(None, "READWRITE")
    written.delete("a", is_permanent=True)
    assert written.registry.version_by_guid(first["guid"])
    assert written.register("c", schema='"int"')["id"] == 2


def test_a_deleted_version_that_a_schema_refers_to_stays(written: Written) -> None:
    referred = '{"type":"record","name":"B","fields":[]}'
    written.register("b", schema=referred)
    written.delete("b", is_permanent=False)
    written.register(
        "a",
        schema='{"type":"record","name":"A","fields":[{"name":"x","type":"B"}]}',
        references=[{"name": "B", "subject": "b", "version": 1}],
    )
    written.register("b", schema=referred)
    written.registry.schemas._parsed.clear()
    written.registry.schemas.parsed(written.registry.version("a", "1").content)


def test_a_registration_without_an_id_in_import_mode(written: Written) -> None:
    written.register("a", schema='"int"')
    written.mode("a", "IMPORT")
    with pytest.raises(RegistryError, match="is not in read-write mode"):
        written.register("a", schema='"string"')


def test_an_import_that_is_repeated(written: Written) -> None:
    written.mode("a", "IMPORT")
    for _ in range(2):
        assert written.register("a", schema='"int"', id=7)["version"] == 1
