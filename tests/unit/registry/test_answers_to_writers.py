"""A user who may write a subject but not read it gets no references of its versions, and metadata only with rules.

A client has to apply the rules, such as an encryption, to the records that it writes; rules use the metadata.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from ottla.registry.core.associations import decide_associate
from ottla.registry.core.registration import decide_register
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_config
from ottla.registry.node.guard import Guard
from ottla.registry.node.server import RegistryServer
from tests.unit.registry.test_hostile_requests import Service

pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")

HIDDEN = {"properties": {"owner": "finance"}}


RULES = {
    "domainRules": [{"name": "hide", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"]}]
}


def answer_to_a_registration(
    tmp_path: Path, path: str, body: dict[str, Any], *, first: dict[str, Any], may_read: bool
) -> dict[str, Any]:
    """The answer to a user after the registration of a first version by another user."""
    rules = tmp_path / "rules"
    rules.write_text(f"ALLOW User:* SUBJECT_WRITE{',SUBJECT_READ' if may_read else ''} s\n")
    service = Service()
    registry = service.registry
    for record in decide_register(registry.state, registry.schemas, "s", schema_request(first, "s"))[0]:
        registry.state.replay(record)

    async def scenario() -> dict[str, Any]:
        server = RegistryServer("127.0.0.1", 0, service, guard=Guard(rules_file=rules))
        await server.start()
        try:
            async with (
                ClientSession(f"http://127.0.0.1:{server.port}") as session,
                session.post(f"/subjects/s/versions{path}", data=json.dumps(body)) as answer,
            ):
                assert answer.status == 200
                result: dict[str, Any] = json.loads(await answer.read())
                return result
        finally:
            await server.stop()

    return asyncio.run(scenario())


@pytest.mark.parametrize("may_read", [False, True])
@pytest.mark.parametrize(("path", "body"), [("", {"schema": '"string"'}), ("", {}), ("/1/tags", {"newVersion": 2})])
def test_the_answer_to_a_registration(tmp_path: Path, path: str, body: dict[str, Any], may_read: bool) -> None:
    first = {"schema": '"string"', "metadata": HIDDEN}
    answer = answer_to_a_registration(tmp_path, path, body, first=first, may_read=may_read)
    assert {"id", "version", "guid"} <= answer.keys()
    assert ("finance" in json.dumps(answer)) == may_read


@pytest.mark.parametrize("may_read", [False, True])
def test_the_rules_that_a_writer_has_to_apply(tmp_path: Path, may_read: bool) -> None:
    first = {"schema": '"string"', "metadata": HIDDEN, "ruleSet": RULES}
    answer = answer_to_a_registration(tmp_path, "", {"schema": '"string"'}, first=first, may_read=may_read)
    assert answer["ruleSet"]["domainRules"][0]["name"] == "hide"
    assert answer["metadata"] == HIDDEN


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/schemas/ids/1"),
        ("GET", "/schemas/ids/1/versions"),
        ("GET", "/schemas/guids/{guid}"),
        ("GET", "/schemas/guids/{guid}/ids"),
        ("GET", "/subjects"),
        ("GET", "/subjects/alias/versions"),
        ("GET", "/schemas"),
        ("GET", "/contexts"),
        ("GET", "/associations/resources/7"),
        ("DELETE", "/associations/resources/7"),
        ("GET", "/dek-registry/v1/keks"),
    ],
)
def test_a_user_without_rights_learns_no_name(tmp_path: Path, method: str, path: str) -> None:
    rules = tmp_path / "rules"
    rules.write_text("ALLOW User:* SUBJECT_READ alias\n")
    service = Service()
    state = service.registry.state
    records, body = decide_register(
        state, service.registry.schemas, ":.hidden:s", schema_request({"schema": '"int"'}, ":.hidden:s")
    )
    secret = {"subject": "secret", "lifecycle": "WEAK"}
    owner = {"resourceName": "t", "resourceNamespace": "c", "resourceId": "7"}

    async def scenario() -> str:
        for record in records:
            state.replay(record)
        first = schema_request({"schema": '"string"'}, "secret")
        await service.write(lambda: decide_register(state, service.registry.schemas, "secret", first))
        await service.write(lambda: decide_config(state, "alias", {"alias": "secret"}))
        await service.write(lambda: decide_associate(state, {**owner, "associations": [secret]}))
        server = RegistryServer("127.0.0.1", 0, service, guard=Guard(rules_file=rules))
        await server.start()
        try:
            async with (
                ClientSession(f"http://127.0.0.1:{server.port}") as session,
                session.request(method, path.format(guid=body["guid"])) as answer,
            ):
                return await answer.text()
        finally:
            await server.stop()

    text = asyncio.run(scenario())
    assert "secret" not in text
    assert "hidden" not in text
