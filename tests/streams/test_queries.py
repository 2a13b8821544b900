"""Interactive queries: every kind of store, across instances, in Python and over HTTP."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.streams import (
    Application,
    Consumed,
    Grouped,
    Materialized,
    Serdes,
    SessionWindows,
    StoreNotFoundError,
    Stores,
    StreamsBuilder,
    StreamsError,
    TimeWindows,
    ValueAndTimestamp,
    Window,
    Windowed,
)
from ottla.streams.runtime.queries import NotUpToBoundError, StoreUnavailableError
from ottla.testing import cluster
from tests.streams.live import Live, eventually

TEXT = Serdes.string()
NAMES = [f"k{number}" for number in range(12)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def build() -> Any:
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, TEXT)
    grouped = builder.stream("in", consumed).group_by_key(Grouped.with_(TEXT, TEXT))
    grouped.count(Materialized.as_("counts"))
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(100)).count(
        Materialized.as_("windows").with_retention(10_000)
    )
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(50))
    sessions.count(Materialized.as_("sessions").with_retention(10_000))
    versioned = Materialized.as_(Stores.persistent_versioned_key_value_store("history", 10_000, TEXT, TEXT))
    builder.table("rows", consumed, versioned)
    builder.global_table("world", consumed, Materialized.as_("everything").with_key_serde(TEXT).with_value_serde(TEXT))
    return builder.build()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, list[Application], list[str]]]:
    with cluster() as kafka:
        live = Live(kafka.bootstrap)
        live.create("in", "rows", "world", partitions=3)
        for time in (10, 20, 130):
            live.write("in", [(name, "x") for name in NAMES], timestamp_ms=time)
        live.write("rows", [("r", "old")], timestamp_ms=100)
        live.write("rows", [("r", "new")], timestamp_ms=200)
        live.write("world", [("w", "all")], timestamp_ms=1)
        applications, hosts = [], []
        directory = tmp_path_factory.mktemp("state")
        for _ in range(2):
            hosts.append(f"127.0.0.1:{free_port()}")
            applications.append(start(live, directory, hosts[-1]))
        for application in applications:
            eventually(lambda instance=application: len(instance.statistics()[0]["tasks"]) == 3)
        eventually(lambda: live.lag("queried") == 0)
        # Both instances know each other after the same rebalance.
        for application in applications:
            eventually(lambda instance=application: {host.host for host in instance.all_metadata()} == set(hosts))
        yield live, applications, hosts
        for application in applications:
            application.close()
        live.close()


def start(live: Live, directory: Path, host: str) -> Application:
    settings = {
        "application.id": "queried",
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
        "state.dir": str(directory),
        "application.server": host,
    }
    application = Application(build(), settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def http(host: str, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{host}{path}", timeout=30) as response:
            content = response.read()
            is_json = response.headers["content-type"] == "application/json"
            return response.status, json.loads(content) if is_json else content
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_every_instance_answers_for_every_key(running: Any) -> None:
    _, applications, hosts = running
    for application in applications:
        store = application.store("counts")
        assert [store.get(name) for name in NAMES] == [ValueAndTimestamp(3, 130)] * 12
        assert store.get("nobody") is None
        assert [key for key, _ in store.all()] == sorted(NAMES)
        assert [key for key, _ in store.reverse_range("k2", "k5")] == ["k5", "k4", "k3", "k2"]
        assert [key for key, _ in store.prefix_scan(b"k1")] == ["k1", "k10", "k11"]
        assert set(store.position) == {"in"}
        assert set(store.position["in"]) == {0, 1, 2}
        metadata = application.query_metadata_for_key("counts", "k1")
        assert metadata.active_host in hosts
        assert metadata.standby_hosts == ()
    owned = {
        host.host: [place for place in host.active if place[0] == "counts"] for host in applications[0].all_metadata()
    }
    assert sorted(place for places in owned.values() for place in places) == [
        ("counts", 0),
        ("counts", 1),
        ("counts", 2),
    ]


def test_windows_sessions_versions_and_global_stores(running: Any) -> None:
    for application in running[1]:
        windows = application.store("windows")
        assert windows.fetch("k1", 0) == ValueAndTimestamp(2, 20)
        assert windows.fetch("k1", 50) is None
        assert list(windows.fetch_range("k1", 0, 200)) == [
            (0, ValueAndTimestamp(2, 20)),
            (100, ValueAndTimestamp(1, 130)),
        ]
        keys = [key for key, _ in windows.fetch_all(100, 100)]
        assert keys == [Windowed(name, Window(100, 200)) for name in sorted(NAMES)]
        sessions = application.store("sessions")
        assert list(sessions.fetch("k2")) == [
            (Windowed("k2", Window(10, 20)), 2),
            (Windowed("k2", Window(130, 130)), 1),
        ]
        assert list(sessions.find_sessions("k2", 100, 200)) == [(Windowed("k2", Window(130, 130)), 1)]
        history = application.store("history")
        assert history.get("r") == ValueAndTimestamp("new", 200)
        assert history.get("r", 150) == ValueAndTimestamp("old", 100)
        assert application.store("everything").get("w").value == "all"
        with pytest.raises(StreamsError, match="it has no fetch"):
            application.store("counts").fetch("k1", 0)


def test_a_bound_is_refused_until_the_input_is_processed(running: Any) -> None:
    application = running[1][0]
    store = application.store("counts")
    store.get("k1")
    ((partition, offset),) = store.position["in"].items()
    assert application.store("counts", bound={"in": {partition: offset}}).get("k1").value == 3
    with pytest.raises(NotUpToBoundError, match="up to offset"):
        application.store("counts", bound={"in": {partition: offset + 1000}}).get("k1")


def test_http_answers_with_json_or_bytes(running: Any) -> None:
    _, _, hosts = running
    for host in hosts:
        status, answer = http(host, "/stores/counts/get?key=k3")
        assert status == 200
        assert [(row["key"], row["value"], row["timestamp"]) for row in answer["rows"]] == [("k3", 3, 130)]
        (about,) = answer["partitions"].values()
        assert about["active"] is True
        assert about["lag"] == 0
        assert http(host, "/stores/counts/get?key=k3&format=raw") == (200, (3).to_bytes(8, "big"))
        assert sorted(row["key"] for row in http(host, "/stores/counts/range")[1]["rows"]) == sorted(NAMES)
        rows = http(host, "/stores/windows/fetch?key=k1&first=0&last=50")[1]["rows"]
        assert [(row["window"], row["value"]) for row in rows] == [({"start": 0, "end": 100}, 2)]
        assert len(http(host, "/stores/sessions/sessions?key=k1")[1]["rows"]) == 2
        assert http(host, "/stores")[1]["stores"] == ["counts", "everything", "history", "sessions", "windows"]
        assert http(host, "/stores/nothing/get?key=k")[0] == 404
        assert http(host, "/stores/counts/get")[0] == 400
        status, answer = http(host, "/stores/counts/range?partition=17")
        assert (status, answer["message"]) == (
            400,
            "Store counts has partitions 0 to 2; partition 17 was asked for.",
        )
        assert http(host, "/stores/counts/fetch?key=k1")[0] == 400
        assert http(host, '/stores/counts/get?key=k1&bound={"in":{"0":99999,"1":99999,"2":99999}}')[0] == 409


@pytest.mark.parametrize("length", ["-1", "many", str(1 << 40)])
def test_a_body_without_a_sensible_length_is_not_read(running: Any, length: str) -> None:
    host, _, port = running[2][0].rpartition(":")
    with socket.create_connection((host, int(port)), 20) as connection:
        connection.sendall(f"POST /query HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode())
        connection.sendall(b"GET /stores HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    # The server sends one answer and closes the connection.
    assert answer.startswith(b"HTTP/1.1 404")
    assert answer.count(b"HTTP/1.1") == 1


def test_without_forwarding_the_owner_is_told(running: Any) -> None:
    _, applications, hosts = running
    owner = applications[0].query_metadata_for_key("counts", "k1").active_host
    (other,) = [host for host in hosts if host != owner]
    assert http(owner, "/stores/counts/get?key=k1&forward=false")[0] == 200
    status, answer = http(other, "/stores/counts/get?key=k1&forward=false")
    assert (status, answer["owner"]) == (421, owner)


def test_stores_that_are_unknown_or_not_there_yet_are_explained(running: Any) -> None:
    with pytest.raises(StoreNotFoundError, match="it has counts, everything"):
        running[1][0].store("count")
    settings = {"application.id": "idle", "bootstrap.servers": "localhost:1"}
    with pytest.raises(StoreUnavailableError, match="CREATED"):
        Application(build(), settings, runs_on="threads").store("counts")
    with pytest.raises(StreamsError, match="is not host:port"):
        Application(build(), {**settings, "application.server": "nowhere"}, runs_on="threads")
