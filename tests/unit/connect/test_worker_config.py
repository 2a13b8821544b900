"""The keys of a worker's properties file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.configuration.rest_listeners import advertised_listener, rest_listeners, rest_tls
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.states import TargetState
from ottla.connect.work.spark_engine import creation_rules
from ottla.connect.worker import read_connector_file

CONVERTERS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
STANDALONE = {**CONVERTERS, "offset.storage.file.filename": "offsets"}
DISTRIBUTED = {
    **CONVERTERS,
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def test_the_rest_interface_listens_for_this_machine_alone_unless_it_is_told_otherwise() -> None:
    """Its clients can run code on the worker (CVE-2024-36543 of another system, whose interface was open)."""
    assert WorkerConfig(DISTRIBUTED, distributed=True).listeners() == [("http", "127.0.0.1", 8083)]


def test_kafkas_own_example_files_are_understood() -> None:
    config = WorkerConfig(
        {
            **DISTRIBUTED,
            "bootstrap.servers": "one:9092,two:9093",
            "key.converter.schemas.enable": "true",
            "offset.flush.interval.ms": "10000",
            "offset.storage.replication.factor": "1",
            "offset.storage.min.insync.replicas": "1",
            "listeners": "HTTP://:8084",
            "plugin.path": "/usr/local/share/java,/opt/connectors,",
            "request.timeout.ms": "7000",
            "spark.driver.memory": "2g",
            "spark.master": "local[4]",
        },
        distributed=True,
    )
    settings = config.client_settings("configs")
    assert [str(server.host) for server in settings.bootstrap_servers] == ["one", "two"]
    assert settings.request_timeout_ms == 7000
    assert settings.client_id == "connect-g-configs"
    assert config.listeners() == [("http", "", 8084)]
    assert config.spark_settings() == {"spark.driver.memory": "2g"}
    assert config.topic_settings("offset") == {"min.insync.replicas": "1"}
    assert config.converter_defaults() == {**CONVERTERS, "key.converter.schemas.enable": "true"}


@pytest.mark.parametrize(
    ("given", "distributed", "about"),
    [
        ({"listeners": "http://:8083,ftp://:8084"}, False, "listeners"),
        ({"listeners": "http://:80830"}, False, "listeners"),
        ({"group.id": None}, True, "group.id"),
        ({"config.storage.topic": None}, True, "config.storage.topic"),
        ({"session.timeout.ms": "1000"}, True, "session.timeout.ms"),
        ({"offset.storage.file.filename": None}, False, "offset.storage.file.filename"),
        ({"value.converter": None}, True, "value.converter"),
    ],
)
def test_what_is_wrong_is_said_by_name(given: dict[str, str | None], distributed: bool, about: str) -> None:
    base: dict[str, str | None] = {**(DISTRIBUTED if distributed else STANDALONE), **given}
    with pytest.raises(ConfigError) as raised:
        WorkerConfig({key: text for key, text in base.items() if text is not None}, distributed=distributed).listeners()
    assert raised.value.name == about


def test_connectors_in_files_of_every_kind(tmp_path: Path) -> None:
    config = {"name": "a", "connector.class": "X", "tasks.max": "2"}
    cases = {
        "a.properties": ("name=a\nconnector.class: X\ntasks.max = 2\n", None),
        "b.json": (json.dumps({**config, "tasks.max": 2}), None),
        "c.json": (json.dumps({"name": "a", "config": {"connector.class": "X", "tasks.max": "2"}}), None),
        "d.json": (json.dumps({"name": "a", "config": config, "initial_state": "paused"}), TargetState.PAUSED),
    }
    for name, (text, target) in cases.items():
        (tmp_path / name).write_text(text)
        assert read_connector_file(tmp_path / name) == (config, target), name
    (tmp_path / "e.json").write_text(json.dumps({"name": "a", "config": config, "initial_state": "SLEEPING"}))
    with pytest.raises(ConfigError):
        read_connector_file(tmp_path / "e.json")


def test_rules_for_topics_that_sources_create() -> None:
    first, default = creation_rules(
        {
            "topic.creation.groups": "big",
            "topic.creation.big.include": "orders.*, clicks",
            "topic.creation.big.exclude": "orders-test",
            "topic.creation.big.partitions": "12",
            "topic.creation.big.cleanup.policy": "compact",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "1",
        }
    )
    assert [first.fits(name) for name in ("orders-1", "clicks", "orders-test", "other")] == [True, True, False, False]
    assert (first.partitions, first.replication_factor, first.configs) == (12, -1, {"cleanup.policy": "compact"})
    assert default.fits("other")
    assert (default.partitions, default.replication_factor) == (3, 1)
    assert creation_rules({}) == ()


def test_a_converter_that_a_connector_names_has_none_of_the_workers_settings() -> None:
    more = {"value.converter.schemas.enable": "false", "key.converter.x": "1", "key.converters": "no setting of one"}
    config = WorkerConfig({**STANDALONE, **more}, distributed=False)
    assert config.converter_defaults({"value.converter": "JsonConverter"}) == {
        "key.converter": "StringConverter",
        "key.converter.x": "1",
    }
    assert config.converter_defaults({"value.converter.schemas.enable": "true"})["value.converter"] == "StringConverter"


def test_tls_of_the_rest_interface() -> None:
    listeners = rest_listeners(["https://a:1", "http://:2", "https://[::1]:3"])
    assert listeners == [("https", "a", 1), ("http", "", 2), ("https", "::1", 3)]
    assert advertised_listener(listeners, None) == 0
    assert advertised_listener(listeners, "HTTP") == 1
    with pytest.raises(ConfigError, match=r"rest\.advertised\.listener"):
        advertised_listener(listeners[1:2], "https")
    of_clients = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}
    assert rest_tls(of_clients).trust_store.location == "/ca.pem"
    # All or nothing, as in Kafka Connect.
    both = {**of_clients, "listeners.https.ssl.client.auth": "required"}
    assert rest_tls(both).trust_store.location is None
    assert rest_tls(both).client_auth == "required"
    with pytest.raises(ConfigError) as raised:
        rest_tls({"listeners.https.ssl.client.auth": "maybe"})
    assert raised.value.name == "listeners.https.ssl.client.auth"
