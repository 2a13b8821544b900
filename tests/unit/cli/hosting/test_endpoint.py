"""The pages of a machine over HTTPS: the settings are those of a node's metrics."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.cli.hosting import endpoint as endpoint_module
from ottla.cli.hosting.endpoint import HostEndpoint
from ottla.cli.hosting.machine import Machine
from ottla.cli.hosting.node_child import NodeState
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


def test_a_node_that_does_not_answer_costs_only_its_own_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "PAGE_SECONDS_MAX", 60.0)
    # A busy machine may need that long for the node that answers.
    monkeypatch.setattr(endpoint_module, "NODE_PAGE_SECONDS_MAX", 1.0)
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\npartitions 7\n")
        writer.close()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    def node(node_id: int, server: asyncio.Server) -> SimpleNamespace:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
        restarts = SimpleNamespace(count=0)
        return SimpleNamespace(node_id=node_id, state=NodeState.READY, metrics_url=url, restarts=restarts)

    async def page() -> str:
        servers = [await asyncio.start_server(serve, "127.0.0.1", 0) for serve in (answer, hang)]
        nodes = [node(number, server) for number, server in enumerate(servers, 1)]
        host = HostEndpoint(SimpleNamespace(nodes=nodes, unready=()))  # type: ignore[arg-type]
        url = await host.open("127.0.0.1:0")
        try:
            with await asyncio.to_thread(urllib.request.urlopen, url) as response:
                text: str = response.read().decode()
                return text
        finally:
            over.set()
            await host.close()
            for server in servers:
                server.close()

    text = asyncio.run(page())
    assert 'partitions{node="1"} 7' in text
    assert 'ottla_host_node_up{node="1"} 1\nottla_host_node_up{node="2"} 0\n' in text
