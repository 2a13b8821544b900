"""No request makes the registry fail: the response names the error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession

from ottla.client.settings import ClientSettings
from ottla.registry.core.records import Record
from ottla.registry.node.server import RegistryServer
from ottla.registry.node.service import RegistryService, ServiceSettings

# The server stores request state under plain names, which aiohttp allows but does not recommend.
pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")

HALF = "\ud800"
RECORD = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "string"}]}
Answer = tuple[int, Any]
Ask = Callable[..., Any]


class Service(RegistryService):
    """A writer whose topic is its own memory."""

    def __init__(self) -> None:
        super().__init__(ClientSettings(bootstrap_servers=()), ServiceSettings())
        self.is_ready = True

    async def write(self, decide: Callable[[], tuple[list[Record], Any]]) -> Any:
        records, answer = decide()
        for key, value in [record.encoded() for record in records]:
            decoded = Record.decode(key, value)
            assert decoded is not None
            self.registry.state.replay(decoded)
        return answer


@asynccontextmanager
async def registry() -> AsyncIterator[Ask]:
    server = RegistryServer("127.0.0.1", 0, Service())
    await server.start()
    async with ClientSession(f"http://127.0.0.1:{server.port}") as session:

        async def ask(path: str, body: bytes | dict[str, Any], method: str = "POST") -> Answer:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with session.request(method, path, data=data) as answer:
                return answer.status, json.loads(await answer.read())

        yield ask
    await server.stop()


def schema(value: Any, kind: str = "AVRO") -> dict[str, Any]:
    return {"schema": value if isinstance(value, str) else json.dumps(value), "schemaType": kind}


@pytest.mark.parametrize(
    "given",
    [
        schema({**RECORD, "doc": HALF}),
        schema({**RECORD, "type": HALF}),
        schema({**RECORD, "fields": [{"name": "f", "type": "string", "default": HALF}]}),
        schema({"type": "object", "title": HALF}, "JSON"),
        schema({"type": HALF}, "JSON"),
        schema({HALF: {}}, "JSON"),
        schema("message M { string s = 99999999999999999999; }", "PROTOBUF"),
        schema("enum E { A = 99999999999; }", "PROTOBUF"),
        schema("message M { reserved 1 to 99999999999; }", "PROTOBUF"),
    ],
)
@pytest.mark.parametrize("path", ["/subjects/s/versions", "/subjects/s/versions?normalize=true"])
def test_a_schema_that_cannot_be_stored_is_invalid(given: dict[str, Any], path: str) -> None:
    async def scenario() -> None:
        async with registry() as ask:
            status, answer = await ask(path, given)
            assert (status, answer["error_code"]) == (422, 42201)
            status, answer = await ask("/compatibility/subjects/s/versions?verbose=true", given)
            assert (status, answer["is_compatible"]) == (200, False)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        b'{"schema":"\xed\xa0\x80"}',
        b'{"schema":"\\ud800"}',
        b'{"schema":"\\uDC00"}',
        b'{"schema":"\xff"}',
        b"[" * 100_000,
        b'{"version":' + b"9" * 5_000 + b"}",
        b"",
        b"null",
    ],
)
def test_a_body_that_is_no_text_of_json_is_told(body: bytes) -> None:
    async def scenario() -> None:
        async with registry() as ask:
            for path in ("/subjects/s/versions", "/subjects/s", "/compatibility/subjects/s/versions"):
                assert (await ask(path, body))[0] == 422
            assert (await ask("/config", body, "PUT"))[0] == 422

    asyncio.run(scenario())


def test_a_body_in_another_unicode_encoding_is_read() -> None:
    async def scenario() -> None:
        async with registry() as ask:
            for encoding in ("utf-16", "utf-32-le", "utf-8-sig"):
                assert (await ask("/subjects/s/versions", json.dumps(schema(RECORD)).encode(encoding)))[0] == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "given",
    [
        {"type": "object", "required": True},
        {"type": "object", "patternProperties": True},
        {"type": "object", "dependencies": [1]},
        {"type": [[]]},
        {"enum": True},
    ],
)
def test_a_schema_that_breaks_the_rules_cannot_be_compared(given: dict[str, Any]) -> None:
    known = {
        "type": "object",
        "properties": {"x": {"type": "string"}},
        "required": ["x"],
        "patternProperties": {"y": {}},
        "dependencies": {"x": ["y"]},
        "enum": ["a"],
    }

    async def scenario() -> None:
        async with registry() as ask:
            assert (await ask("/subjects/s/versions", schema(known, "JSON")))[0] == 200
            status, answer = await ask("/compatibility/subjects/s/versions", schema(given, "JSON"))
            assert (status, answer["error_code"]) == (422, 42201)
            status, answer = await ask("/compatibility/subjects/s/versions?verbose=true", schema(given, "JSON"))
            assert (status, answer["is_compatible"]) == (200, False)

    asyncio.run(scenario())


@pytest.mark.parametrize("removed", [True, 1, "r", {"r": 1}])
def test_rules_to_remove_are_a_list(removed: Any) -> None:
    async def scenario() -> None:
        async with registry() as ask:
            await ask("/subjects/s/versions", schema(RECORD) | {"ruleSet": {"domainRules": [{"name": "r"}]}})
            status, answer = await ask("/subjects/s/versions/1/tags", {"rulesToRemove": removed})
            assert (status, answer["error_code"]) == (422, 42210)

    asyncio.run(scenario())
