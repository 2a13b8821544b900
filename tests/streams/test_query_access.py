"""Interactive queries over HTTP on addresses that other machines reach: a login and TLS, or no start."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.streams import Application, Consumed, Materialized, Serdes, StreamsBuilder, StreamsError, Topology
from ottla.streams.runtime.query_access import PREFIX
from ottla.testing import cluster
from ottla.tls.authority import new_authority
from tests.streams.live import Live, eventually
from tests.streams.test_queries import free_port

TEXT = Serdes.string()
USER = "application.server.basic.auth.user.info"


def build() -> Topology:
    builder = StreamsBuilder()
    builder.table("rows", Consumed.with_(TEXT, TEXT), Materialized.as_("rows-store"))
    return builder.build()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory: Path = tmp_path_factory.mktemp("tls")
    authority = new_authority()
    pair = authority.for_node("127.0.0.1", "localhost")
    (directory / "key.pem").write_text(pair.store)
    (directory / "ca.pem").write_text(authority.certificate)
    return {
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.keystore.location": str(directory / "key.pem"),
        f"{PREFIX}ssl.truststore.type": "PEM",
        f"{PREFIX}ssl.truststore.location": str(directory / "ca.pem"),
    }


def properties(server: str, **more: Any) -> dict[str, Any]:
    return {"application.id": "guarded", "bootstrap.servers": "localhost:1", "application.server": server, **more}


@pytest.mark.parametrize("server", ["0.0.0.0:80", "orders.example.org:80", "[::]:80", "10.0.0.1:80"])
def test_other_addresses_need_a_login_and_tls(server: str, tls: dict[str, str]) -> None:
    login = {USER: "reader:secret"}
    for less in ({}, login, tls):
        with pytest.raises(StreamsError, match=rf"application\.server={server.replace('[', '.').replace(']', '.')}"):
            Application(build(), properties(server, **less), runs_on="threads")
    Application(build(), properties(server, **login, **tls), runs_on="threads")
    Application(build(), properties(server, **tls, **{f"{PREFIX}ssl.client.auth": "required"}), runs_on="threads")
    Application(build(), properties(server, **{"application.server.insecure": "true"}), runs_on="threads")


@pytest.mark.parametrize("server", ["127.0.0.1:80", "localhost:80", "[::1]:80"])
def test_loopback_needs_nothing(server: str) -> None:
    Application(build(), properties(server), runs_on="threads")


def test_settings_that_cannot_be_used_are_explained(tls: dict[str, str]) -> None:
    for bad, words in (
        ({USER: "reader"}, "NAME:PASSWORD"),
        ({**tls, f"{PREFIX}ssl.keystore.location": "/nowhere"}, r"application\.server\.ssl"),
        ({f"{PREFIX}ssl.keystor.location": "x"}, "is no key"),
        ({"application.server.insecure": "yes"}, "true or false"),
    ):
        with pytest.raises(StreamsError, match=words):
            Application(build(), properties("127.0.0.1:80", **bad), runs_on="threads")


@pytest.fixture(scope="module")
def hosts(tls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two instances with a login and TLS."""
    with cluster() as running:
        live = Live(running.bootstrap)
        live.create("rows", partitions=4)
        live.write("rows", [(f"k{number}", "v") for number in range(8)])
        directory = str(tmp_path_factory.mktemp("state"))
        applications = []
        for _ in range(2):
            settings = properties(f"127.0.0.1:{free_port()}", **tls, **{USER: "reader:se:cret"})
            settings |= {"bootstrap.servers": live.bootstrap, "state.dir": directory, "commit.interval.ms": 20}
            applications.append(Application(build(), settings, runs_on="threads"))
            applications[-1].start()
            applications[-1].wait_running(60)
        servers = [application.config.server for application in applications]
        for application in applications:
            eventually(
                lambda application=application: {host.host for host in application.all_metadata()} == set(servers)
            )
            eventually(lambda application=application: len(application.statistics()[0]["tasks"]) == 2)
        eventually(lambda: live.lag("guarded") == 0)
        yield servers[0], servers[1]
        for application in applications:
            application.close()
        live.close()


def status(host: str, tls: dict[str, str], login: str | None, *, body: bytes | None = None) -> int:
    context = ssl.create_default_context(cafile=tls[f"{PREFIX}ssl.truststore.location"])
    request = urllib.request.Request(f"https://{host}/{'stores' if body is None else 'query'}", body)
    if login is not None:
        request.add_header("authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_login_is_asked_for(hosts: tuple[str, str], tls: dict[str, str]) -> None:
    assert status(hosts[0], tls, "reader:se:cret") == 200
    for login in (None, "reader:", "reader:secret", "other:se:cret"):
        assert status(hosts[0], tls, login) == 401
        assert status(hosts[0], tls, login, body=b"{}") == 401


def test_plain_http_gets_nothing(hosts: tuple[str, str]) -> None:
    with pytest.raises((OSError, http.client.HTTPException)):
        urllib.request.urlopen(f"http://{hosts[0]}/stores", timeout=30)


def test_instances_ask_each_other_with_the_login(hosts: tuple[str, str], tls: dict[str, str]) -> None:
    context = ssl.create_default_context(cafile=tls[f"{PREFIX}ssl.truststore.location"])
    for host in hosts:
        for number in range(8):
            request = urllib.request.Request(f"https://{host}/stores/rows-store/get?key=k{number}&format=raw")
            request.add_header("authorization", f"Basic {base64.b64encode(b'reader:se:cret').decode()}")
            with urllib.request.urlopen(request, timeout=30, context=context) as response:
                assert response.read() == b"v"
