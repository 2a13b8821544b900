"""The REST interface over https, and workers that pass requests on to each other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from ottla.connect.api.config_definitions import ConfigError
from ottla.testing import Cluster, cluster
from tests.support.connect_workers import fake_worker
from tests.support.secured import Certificates, SecuredNode


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


async def repeat(succeeds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await succeeds():
            await asyncio.sleep(0.05)


def test_workers_serve_and_forward_over_https(broker: Cluster, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    tls = certificates.server_settings("listeners.https.")
    settings: dict[str, str] = {
        **{name.replace(".", "_"): text for name, text in tls.items()},
        "listeners": "https://localhost:0",
        "listeners_https_ssl_client_auth": "required",
    }
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    stranger = ssl.create_default_context(cafile=str(certificates.trusted))
    context.load_cert_chain(certificates.client)

    async def run() -> None:
        first, second = (
            fake_worker(broker.bootstrap, tmp_path / name, distributed=True, **settings) for name in ("one", "two")
        )
        async with first as (first_api, *_), second as (second_api, *_), aiohttp.ClientSession() as session:
            assert first_api.url.startswith("https://localhost:")
            with pytest.raises(aiohttp.ClientError):
                await (await session.get(first_api.url, ssl=stranger)).read()
            config = {"connector.class": "LineSource", "topic": "t", "file": "f"}

            async def create(url: str, name: str) -> int:
                answer = await session.post(f"{url}connectors", json={"name": name, "config": config}, ssl=context)
                return answer.status

            # One of the two is not the leader, and passes its request on.
            async def both_work() -> bool:
                statuses = [await create(url, name) for url, name in ((first_api.url, "a"), (second_api.url, "b"))]
                return all(status in (201, 409) for status in statuses)

            await repeat(both_work)

            async def listed() -> bool:
                answer = await session.get(f"{second_api.url}connectors", ssl=context)
                return sorted(await answer.json()) == ["a", "b"]

            await repeat(listed)

    asyncio.run(run())


def test_a_worker_without_a_certificate_says_so(broker: Cluster, tmp_path: Path) -> None:
    async def run() -> None:
        async with fake_worker(broker.bootstrap, tmp_path, distributed=True, listeners="https://127.0.0.1:0"):
            pytest.fail("it started")

    with pytest.raises(ConfigError, match=r"https cannot be used\. A listener with TLS needs a private key"):
        asyncio.run(run())


def test_a_worker_reaches_its_brokers_over_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    settings = {**certificates.server_settings(), "listener.name.clients.ssl.client.auth": "required"}
    client_settings = {name.replace(".", "_"): text for name, text in certificates.client_properties().items()}
    with SecuredNode(tmp_path / "node", {"CLIENTS": "SSL"}, settings) as node:

        async def run() -> None:
            address = node.address("CLIENTS")
            worker = fake_worker(address, tmp_path, distributed=True, security_protocol="SSL", **client_settings)
            async with worker as (api, *_), aiohttp.ClientSession() as session:
                config = {"connector.class": "LineSource", "topic": "t", "file": "f"}

                async def created() -> bool:
                    answer = await session.post(f"{api.url}connectors", json={"name": "a", "config": config})
                    return answer.status == 201

                await repeat(created)

        asyncio.run(run())
