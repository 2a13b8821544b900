"""Concurrent changes of connectors, and secrets in responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientError as HttpClientError
from yarl import URL

from ottla.connect.configuration.secrets import Mask, make_providers, resolve
from ottla.connect.control.request_errors import RequestError
from ottla.connect.control.resources.connectors import Connectors
from ottla.connect.control.resources.plugins import PluginCatalog
from ottla.connect.control.rest.server import RestServer
from ottla.connect.control.routing import Routing
from ottla.connect.control.stores import Stores
from ottla.connect.control.stores.config import MemoryConfigStore, Record
from ottla.connect.control.stores.offsets import TopicOffsetStore
from ottla.connect.plugins import Plugins

CONFIG: Mapping[str, str | None] = {"name": "c", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}


class SlowStore(MemoryConfigStore):
    """A store whose records are known a moment after they were sent, as in a topic."""

    async def write(self, records: Sequence[Record]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await super().write(records)


@pytest.fixture
def catalog() -> PluginCatalog:
    mask = Mask()
    config: Any = SimpleNamespace(converter_defaults=dict)
    return PluginCatalog(
        Plugins(),
        config,
        resolve=lambda properties: resolve(properties, make_providers({"config.providers": "env"}), mask),
        hide=mask.hide,
    )


class NoReconciler:
    """Nothing runs."""

    async def settle(self, _connector: str) -> None:
        pass


@pytest.fixture
def connectors(catalog: PluginCatalog) -> Connectors:
    unused: Any = None
    reconciler: Any = NoReconciler()
    routing = Routing("http://here/", is_distributed=False)
    return Connectors(Stores(SlowStore(), unused, unused), catalog=catalog, routing=routing, reconciler=reconciler)


@pytest.fixture
def everything_is_valid(catalog: PluginCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def validate(_config: object) -> dict[str, Any]:
        return {"configs": []}

    monkeypatch.setattr(catalog, "validate", validate)


@pytest.mark.usefixtures("everything_is_valid")
def test_two_patches_at_once_are_both_there(connectors: Connectors) -> None:
    async def scenario() -> None:
        await connectors.put("c", dict(CONFIG), target=None, replace=False)
        await asyncio.gather(
            connectors.patch("c", {"tasks.max": "3"}),
            connectors.patch("c", {"batch.size": "7", "tasks.max.enforce": None}),
        )

    asyncio.run(scenario())
    assert connectors.config("c") == {**CONFIG, "tasks.max": "3", "batch.size": "7"}


@pytest.mark.usefixtures("everything_is_valid")
def test_of_two_that_create_a_connector_one_is_refused(connectors: Connectors) -> None:
    async def scenario() -> list[Any]:
        creations = [connectors.put("c", {**CONFIG, "topic": topic}, target=None, replace=False) for topic in "ab"]
        return await asyncio.gather(*creations, return_exceptions=True)

    answers = asyncio.run(scenario())
    (refused,) = [answer for answer in answers if isinstance(answer, Exception)]
    assert isinstance(refused, RequestError)
    assert refused.status == 409


def test_a_secret_is_in_no_complaint_about_it(
    catalog: PluginCatalog, connectors: Connectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_TEST_SECRET", "hunter2000")
    config = {**CONFIG, "tasks.max": "${env:OTTLA_TEST_SECRET}"}
    body = asyncio.run(catalog.validate(config))
    assert body["error_count"] == 1
    assert "hunter2000" not in json.dumps(body)
    with pytest.raises(RequestError, match=r"tasks\.max is '\*+'"):
        asyncio.run(connectors.put("c", config, target=None, replace=True))


def test_an_offset_that_is_changed_goes_where_it_was() -> None:
    """Keys with other bytes would be in another partition of the topic, where the order of changes is lost."""
    sent: list[tuple[bytes, bytes | None]] = []

    class Log:
        topic = "offsets"

        async def send(self, records: list[tuple[bytes, bytes | None]]) -> None:
            sent.extend(records)

        async def read_to_end(self) -> None:
            pass

    log: Any = Log()
    store = TopicOffsetStore(lambda _on_record: log)
    key = b'["c",{"server":"s","table":"t"}]'
    store._replay(key, b'{"lsn":5}')
    other = {"table": "t", "server": "s"}
    asyncio.run(store.put("c", [(other, {"lsn": 4}), (other, None), ({"b": 1, "a": 2}, {"lsn": 1})]))
    assert sent == [(key, b'{"lsn":4}'), (key, None), (b'["c",{"b":1,"a":2}]', b'{"lsn":1}')]


def test_a_request_is_passed_on_with_its_name_as_it_was_written() -> None:
    requested: list[str] = []

    class Session:
        def request(self, method: str, url: URL, **_: Any) -> Any:
            requested.append(f"{method} {url}")
            raise HttpClientError

    async def read() -> bytes:
        return b""

    server: Any = RestServer([])
    server._session = Session()
    address = URL("/connectors/a%2Fb%3Fc/config", encoded=True)
    request: Any = SimpleNamespace(method="GET", rel_url=address, query={}, headers={}, read=read, path=address.path)
    answer = asyncio.run(server._forward(request, "http://other:8083/"))
    assert requested == ["GET http://other:8083/connectors/a%2Fb%3Fc/config"]
    assert answer.status == 500
