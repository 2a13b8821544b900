"""References between schemas: what keeps a version from being deleted, and how references are stored in contexts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.registry.core.records import Record
from ottla.registry.core.registry import Registry
from ottla.registry.core.state import RegistryState
from tests.unit.registry.test_hostile_requests import registry

pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")

INNER = {"schema": '{"type":"record","name":"B","fields":[]}'}
Ask = Callable[..., Awaitable[tuple[int, Any]]]


def using(subject: str, version: int = 1, name: str = "A") -> dict[str, Any]:
    """A schema that refers to this version."""
    text = {"type": "record", "name": name, "fields": [{"name": "x", "type": "B"}]}
    return {"schema": json.dumps(text), "references": [{"name": "B", "subject": subject, "version": version}]}


def scenario(steps: Callable[[Ask], Awaitable[None]]) -> None:
    async def run() -> None:
        async with registry() as ask:
            await steps(ask)

    asyncio.run(run())


async def done(ask: Ask, path: str, body: Any = b"", method: str = "POST") -> Any:
    status, answer = await ask(path, body, method)
    assert status == 200, answer
    return answer


async def refused(ask: Ask, path: str, method: str = "DELETE") -> int:
    status, answer = await ask(path, b"", method)
    assert status != 200, answer
    code: int = answer["error_code"]
    return code


@pytest.mark.parametrize("last", ["", "/versions/1"])
def test_a_soft_deleted_version_keeps_its_references(last: str) -> None:
    """Consumers still read it by its id, and its text means nothing without them."""

    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/b/versions", INNER)
        await done(ask, "/subjects/a/versions", using("b"))
        assert await refused(ask, f"/subjects/b{last}") == 42206
        await done(ask, "/subjects/a", method="DELETE")
        await done(ask, f"/subjects/b{last}", method="DELETE")
        assert await refused(ask, f"/subjects/b{last}?permanent=true") == 42206
        await done(ask, "/subjects/a?permanent=true", method="DELETE")
        await done(ask, f"/subjects/b{last}?permanent=true", method="DELETE")

    scenario(steps)


def test_a_new_version_does_not_replace_a_deleted_one_that_a_deleted_version_refers_to() -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/b/versions", INNER)
        user = await done(ask, "/subjects/a/versions", using("b"))
        await done(ask, "/subjects/a", method="DELETE")
        await done(ask, "/subjects/b", method="DELETE")
        assert (await done(ask, "/subjects/b/versions", INNER))["version"] == 2
        assert await done(ask, "/subjects/b/versions?deleted=true", method="GET") == [1, 2]
        await done(ask, f"/schemas/ids/{user['id']}?format=resolved", method="GET")

    scenario(steps)


def test_versions_of_a_subject_that_refer_to_each_other_go_together() -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, "/config/s", {"compatibility": "NONE"}, "PUT")
        await done(ask, "/subjects/s/versions", INNER)
        await done(ask, "/subjects/s/versions", using("s"))
        assert await refused(ask, "/subjects/s/versions/1") == 42206
        assert await done(ask, "/subjects/s", method="DELETE") == [1, 2]
        assert await refused(ask, "/subjects/s/versions/1?permanent=true") == 42206
        assert await done(ask, "/subjects/s?permanent=true", method="DELETE") == [1, 2]

    scenario(steps)


def test_the_list_of_referring_schemas() -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/b/versions", INNER)
        user = await done(ask, "/subjects/a/versions", using("b"))
        path = "/subjects/b/versions/1/referencedby"
        assert await done(ask, path, method="GET") == [user["id"]]
        await done(ask, "/subjects/a", method="DELETE")
        assert await done(ask, path, method="GET") == []
        assert await done(ask, path + "?deleted=true", method="GET") == [user["id"]]
        # A version that is deleted itself may still be referred to.
        await done(ask, "/subjects/b", method="DELETE")
        assert await done(ask, path, method="GET") == []

    scenario(steps)


def test_the_last_version_of_a_subject_that_a_topic_is_associated_with_stays() -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/s/versions", INNER)
        await done(
            ask,
            "/associations",
            {"resourceName": "t", "resourceNamespace": "c", "resourceId": "1", "associations": [{"subject": "s"}]},
        )
        assert await refused(ask, "/subjects/s/versions/1") == 40907
        assert await refused(ask, "/subjects/s") == 40904

    scenario(steps)


def test_a_reference_within_a_context_is_answered_as_it_was_sent() -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/b/versions", {"schema": '"int"'})
        await done(ask, "/subjects/:.lab:b/versions", INNER)
        first = await done(ask, "/subjects/:.lab:a/versions", using("b"))
        sent = [{"name": "B", "subject": "b", "version": 1}]
        full = [{"name": "B", "subject": ":.lab:b", "version": 1}]
        for path in ("/subjects/:.lab:a/versions/1", f"/schemas/ids/{first['id']}?subject=:.lab:"):
            assert (await done(ask, path, method="GET"))["references"] == sent
            path += "&" if "?" in path else "?"
            assert (await done(ask, f"{path}referenceFormat=qualified", method="GET"))["references"] == full
        # Both names mean the same subject, so this is the same schema.
        again = await done(ask, "/subjects/:.lab:a/versions", using(":.lab:b"))
        assert (again["id"], again["version"]) == (first["id"], 1)
        assert await done(ask, "/subjects/:.lab:b/versions/1/referencedby", method="GET") == [first["id"]]
        assert await done(ask, "/subjects/b/versions/1/referencedby", method="GET") == []

    scenario(steps)


def test_the_records_of_a_context_are_those_of_other_registries() -> None:
    """Other registries write the names of referenced subjects as they were sent, without the context."""
    written = Registry()
    for subject, number, schema_id, body in (
        ("b", 1, 1, {"schema": '"int"'}),
        (":.lab:b", 1, 1, INNER),
        (":.lab:a", 1, 2, using("b")),
    ):
        key = {"keytype": "SCHEMA", "subject": subject, "version": number, "magic": 1}
        value = {"subject": subject, "version": number, "id": schema_id, "deleted": False}
        written.state.replay(Record(key, value | body))
    version = written.version(":.lab:a", "1")
    assert '"name":"B"' in written.formatted(version.content, "resolved").replace(" ", "")
    assert written.referring_ids(written.version(":.lab:b", "1"), with_deleted=False) == [2]
    assert is_referenced(written.state, ":.lab:b")
    assert not is_referenced(written.state, "b")


def is_referenced(state: RegistryState, subject: str) -> bool:
    return (subject, 1) in state.referenced(with_deleted=False)


def test_a_name_without_a_context_is_searched_in_all_contexts() -> None:
    """A client that resolves references knows their names without the context."""

    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/:.lab:b/versions", INNER)
        assert (await done(ask, "/subjects/b/versions/1", method="GET"))["subject"] == ":.lab:b"
        assert (await done(ask, "/subjects/b", INNER))["subject"] == ":.lab:b"
        assert await refused(ask, "/subjects/b/versions/2", "GET") == 40401
        assert await refused(ask, "/subjects/:.other:b/versions/1", "GET") == 40401
        assert await refused(ask, "/subjects/b") == 40401

    scenario(steps)


def test_a_schema_by_its_id_with_a_subject() -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, "/subjects/a/versions", INNER)
        body = await done(ask, "/subjects/b/versions", INNER)
        plain = await done(ask, f"/schemas/ids/{body['id']}", method="GET")
        assert not {"subject", "version", "id"} & plain.keys()
        named = await done(ask, f"/schemas/ids/{body['id']}?subject=b", method="GET")
        assert (named["subject"], named["version"]) == ("b", 1)

    scenario(steps)


@pytest.mark.parametrize("name", ["a{b}", "{", "}", "{subject}", 'a"b', "a%2Fb", "a%3Fb"])
def test_names_of_subjects(name: str) -> None:
    async def steps(ask: Ask) -> None:
        await done(ask, f"/subjects/{name}/versions", INNER)
        await done(ask, f"/subjects/{name}/versions/1", method="GET")
        await done(ask, f"/contexts/.lab/subjects/{name}/versions", INNER)

    scenario(steps)


@pytest.mark.parametrize(
    "name", ["a%00", "a%7F", "a%C2%85", "__GLOBAL", ":.lab:__GLOBAL", ":.lab:__EMPTY", ":.__GLOBAL:s"]
)
def test_names_that_no_subject_may_have(name: str) -> None:
    async def steps(ask: Ask) -> None:
        status, answer = await ask(f"/subjects/{name}/versions", INNER)
        assert (status, answer["error_code"]) == (422, 42208)

    scenario(steps)


def test_the_compatibility_with_a_version_that_does_not_exist() -> None:
    async def steps(ask: Ask) -> None:
        path = "/compatibility/subjects/s/versions/"
        status, answer = await ask(path + "3", INNER)
        assert (status, answer["error_code"]) == (404, 40402)
        assert (await done(ask, path + "latest", INNER))["is_compatible"]
        await done(ask, "/subjects/s/versions", INNER)
        status, answer = await ask(path + "3", INNER)
        assert (status, answer["error_code"]) == (404, 40402)
        assert (await done(ask, path + "1", INNER))["is_compatible"]

    scenario(steps)
