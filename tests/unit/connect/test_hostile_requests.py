"""No request makes the REST interface fail unexpectedly: the response names the error."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession
from yarl import URL

from ottla.connect.configuration.rest_listeners import RestListener
from ottla.connect.control.request_errors import RequestError
from ottla.connect.control.resources.offsets import _parse_sink_offsets
from ottla.connect.control.rest.server import RestServer

HALF = "\ud800"


class Herder:
    """Takes every request."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.ready.set()
        self.connectors = self.offsets = self.tasks = SimpleNamespace(put=self._put, alter=self._alter, status=dict)
        self.hide = str

    async def _put(self, name: str, _config: object, **_: Any) -> tuple[bool, dict[str, Any]]:
        return True, {"name": name}

    async def _alter(self, _name: str, _offsets: object) -> dict[str, Any]:
        return {}


async def answer_of(method: str, path: str, body: Any = None) -> tuple[int, str | None, Any]:
    server, herder = RestServer([RestListener("http", "127.0.0.1", 0)]), Herder()
    anything: Any = herder
    await server.start()
    server.serve(anything)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        async with (
            ClientSession(headers={"Content-Type": "application/json"}) as session,
            session.request(
                method, URL(f"http://127.0.0.1:{server.ports[0]}{path}", encoded=True), data=data
            ) as answer,
        ):
            return answer.status, answer.headers.get("Location"), json.loads(await answer.read())
    finally:
        await server.stop()


def test_a_body_that_is_nested_too_deeply_is_no_json(caplog: pytest.LogCaptureFixture) -> None:
    status, _, answer = asyncio.run(answer_of("POST", "/connectors", b"[" * 100_000))
    # As Kafka Connect answers to every body that it cannot read.
    assert status == 500
    assert "not JSON" in answer["message"]
    assert "failed" not in caplog.text


@pytest.mark.parametrize("body", [{"name": HALF, "config": {}}, {"name": "a", "config": {"x": HALF}}])
def test_half_a_surrogate_pair_is_refused(body: Any) -> None:
    assert asyncio.run(answer_of("POST", "/connectors", body))[0] == 400
    # As bytes it is not UTF-8, and no JSON therefore.
    _, _, answer = asyncio.run(answer_of("POST", "/connectors", b'{"name":"\xed\xa0\x80","config":{}}'))
    assert "not JSON" in answer["message"]


@pytest.mark.parametrize(("name", "status"), [(1, 201), (True, 201), ([], 500), ({}, 500)])
def test_the_name_is_read_as_settings_are(name: Any, status: int) -> None:
    answer = asyncio.run(answer_of("POST", "/connectors", {"name": name, "config": {}}))
    assert answer[0] == status
    assert status == 201 or "name is neither text nor a number" in answer[2]["message"]


def test_the_address_of_a_connector_with_a_slash() -> None:
    status, location, _ = asyncio.run(answer_of("PUT", "/connectors/%2Fa%20b/config", {}))
    assert status == 201
    assert location is not None
    assert location.endswith("/connectors/%2Fa%20b")


@pytest.mark.parametrize("offset", [True, 1, "x", []])
def test_an_offset_is_an_object_or_null(offset: Any) -> None:
    entry = {"partition": {}, "offset": offset}
    assert asyncio.run(answer_of("PATCH", "/connectors/a/offsets", {"offsets": [entry]}))[0] == 400
    assert asyncio.run(answer_of("PATCH", "/connectors/a/offsets", {"offsets": [{**entry, "offset": None}]}))[0] == 200


def test_the_number_of_a_task_has_a_length() -> None:
    assert asyncio.run(answer_of("GET", f"/connectors/a/tasks/{'9' * 5_000}/status"))[0] == 404


@pytest.mark.parametrize(
    ("partition", "offset"), [(float("inf"), 1), (0, float("inf")), (2**31, 1), (-1, 1), (0, 2**63)]
)
def test_what_no_topic_has(partition: Any, offset: Any) -> None:
    pairs = [({"kafka_topic": "t", "kafka_partition": partition}, {"kafka_offset": offset})]
    with pytest.raises(RequestError) as caught:
        _parse_sink_offsets(pairs)
    assert caught.value.status == 400
