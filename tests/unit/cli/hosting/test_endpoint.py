"""The pages of a machine over HTTPS: the settings are those of a node's metrics."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.cli.hosting.endpoint import HostEndpoint
from ottla.cli.hosting.machine import Machine
from ottla.cli.hosting.plan import HostError, HostPlan, host_plan
from ottla.cli.hosting.run import _open
from ottla.tls.authority import new_authority

AUTHORITY = new_authority()
NODE = AUTHORITY.for_node("127.0.0.1")


class NoNodes:
    nodes = ()
    unready: Sequence[int] = ()


def plan(directory: Path, **more: str) -> HostPlan:
    store = directory / "node.pem"
    store.write_text(NODE.store)
    settings = {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "100@127.0.0.1:9093",
        "log.dirs": str(directory),
        "ottla.metrics.listener": "https://127.0.0.1:0",
        "listener.name.metrics.ssl.keystore.type": "PEM",
        "listener.name.metrics.ssl.keystore.location": str(store),
    }
    return host_plan({**settings, **more}, [0])


def ask(url: str, context: ssl.SSLContext | None) -> bytes:
    with urllib.request.urlopen(url.replace("/metrics", "/health/ready"), context=context, timeout=60) as answer:
        body: bytes = answer.read()
        return body


async def served(of: HostPlan, context: ssl.SSLContext, *, scheme: str = "https") -> bytes:
    machine: Machine = NoNodes()  # type: ignore[assignment]
    endpoint = HostEndpoint(machine)
    url = await _open(endpoint, of)
    assert url.startswith("https://127.0.0.1:")
    try:
        return await asyncio.to_thread(ask, url.replace("https", scheme, 1), context if scheme == "https" else None)
    finally:
        await endpoint.close()


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.certificate)


def test_pages_are_served_over_tls(tmp_path: Path) -> None:
    assert asyncio.run(served(plan(tmp_path), trusting())) == b"ready\n"


def test_without_tls_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        asyncio.run(served(plan(tmp_path), trusting(), scheme="http"))


def test_a_client_without_the_certificate_that_is_required_is_refused(tmp_path: Path) -> None:
    trust = tmp_path / "trust.pem"
    trust.write_text(AUTHORITY.certificate)
    required = {
        "listener.name.metrics.ssl.client.auth": "required",
        "listener.name.metrics.ssl.truststore.type": "PEM",
        "listener.name.metrics.ssl.truststore.location": str(trust),
    }
    with pytest.raises(OSError):
        asyncio.run(served(plan(tmp_path, **required), trusting()))
    context = trusting()
    client = tmp_path / "client.pem"
    client.write_text(AUTHORITY.for_client("prometheus").store)
    context.load_cert_chain(client)
    assert asyncio.run(served(plan(tmp_path, **required), context)) == b"ready\n"


def test_a_key_store_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = plan(tmp_path, **{"listener.name.metrics.ssl.keystore.location": str(tmp_path / "none.pem")})
    with pytest.raises(
        HostError, match=r"ottla\.metrics\.listener https://127\.0\.0\.1:0 cannot use TLS\. .*none\.pem"
    ):
        asyncio.run(served(missing, trusting()))
