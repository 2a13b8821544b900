"""Schemas of a real registry, values that it describes, and connectors of a worker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import ottla.testing
from tests.support.consoles import Browser, ConsoleProcess, console_process
from tests.support.http_servers import AnsweringHandler, http_server
from tests.support.registries import RegistryProcess, registry_process

PERSON = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"}]}'
WITH_AGE = (
    '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":["null","int"],"default":null}]}'
)
RENAMED = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"label","type":"string"}]}'


class FakeWorker:
    """A worker of Kafka Connect, with the answers that the console needs."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {
            "lines": {"connector.class": "FileStreamSource", "file": "a", "db.password": "hidden-word", "name": "lines"}
        }
        self.states = {"lines": "RUNNING"}
        self.restarted: list[str] = []

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == ["connectors"]:
            key = "status" if "status" in path else "info"
            return 200, {
                name: {key: self.status(name) if key == "status" else self.info(name)} for name in self.configs
            }
        if parts[0] == "connector-plugins":
            if method == "GET" and parts[-1] == "config":
                return 200, [{"name": "file", "type": "STRING"}, {"name": "pin", "type": "PASSWORD"}]
            if method == "GET":
                return 200, [{"class": "FileStreamSource", "type": "source", "version": "1"}]
            errors = [] if body.get("file") else ["file is missing"]
            return 200, {"configs": [{"value": {"name": "file", "errors": errors}}]}
        name, subpath = parts[1], parts[2:]
        if name not in self.configs and not (method == "PUT" and subpath == ["config"]):
            return 404, {"error_code": 404, "message": f"Connector {name} not found"}
        if method == "GET":
            answers = {
                "": self.info(name),
                "config": self.configs[name],
                "status": self.status(name),
                "topics": {name: {"topics": ["t"]}},
                "offsets": {"offsets": []},
            }
            return 200, answers["/".join(subpath)]
        if method == "DELETE":
            del self.configs[name]
        elif subpath == ["config"]:
            self.configs[name] = body
            self.states[name] = "RUNNING"
            return 200, self.info(name)
        elif subpath[-1] == "restart":
            self.restarted.append(path)
        else:
            self.states[name] = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}[subpath[0]]
        return 204, None

    def info(self, name: str) -> dict[str, Any]:
        return {"name": name, "config": self.configs[name], "tasks": [], "type": "source"}

    def status(self, name: str) -> dict[str, Any]:
        tasks = [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "it broke"}]
        return {
            "name": name,
            "type": "source",
            "connector": {"state": self.states[name], "worker_id": "w:1"},
            "tasks": tasks,
        }

    @contextmanager
    def serving(self) -> Iterator[str]:
        worker = self

        class Handler(AnsweringHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, answer = worker.answer(self.command, self.path, body)
                self.answer(status, b"" if answer is None else json.dumps(answer).encode())

            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def do_PUT(self) -> None:
                self._serve()

            def do_DELETE(self) -> None:
                self._serve()

        with http_server(Handler) as address:
            yield f"http://{address}"


@pytest.fixture(scope="module")
def registry(cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    with registry_process(cluster.bootstrap) as process:
        yield process


@pytest.fixture(scope="module")
def worker() -> FakeWorker:
    return FakeWorker()


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster, registry: RegistryProcess, worker: FakeWorker) -> Iterator[ConsoleProcess]:
    with (
        worker.serving() as url,
        console_process(cluster.bootstrap, "--registry", registry.url, "--connect", url) as running,
    ):
        yield running


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:8]}-value"


def test_schemas_are_checked_before_they_are_registered(browser: Browser, subject: str) -> None:
    planned = browser.change("POST", f"/api/schemas/{subject}", {"schema": PERSON, "dry_run": True})
    assert planned["is_compatible"]
    assert subject not in str(browser.get("/api/schemas"))
    browser.change("POST", f"/api/schemas/{subject}", {"schema": PERSON})
    bad = browser.change("POST", f"/api/schemas/{subject}/check", {"schema": RENAMED})
    assert not bad["is_compatible"]
    assert bad["messages"]
    assert {"kind": "removed", "text": '      "name": "name",'} in bad["lines"]
    planned = browser.change("POST", f"/api/schemas/{subject}", {"schema": RENAMED, "dry_run": True})
    assert planned["warnings"][0] == "The registry will refuse this schema."
    assert browser.failure("POST", f"/api/schemas/{subject}", {"schema": RENAMED}) == (409, "UPSTREAM")
    browser.change("POST", f"/api/schemas/{subject}", {"schema": WITH_AGE})
    description = browser.get(f"/api/schemas/{subject}")
    assert [version["version"] for version in description["versions"]] == [1, 2]
    assert (description["compatibility"], description["compatibility_source"]) == ("BACKWARD", "global")
    lines = browser.get(f"/api/schemas/{subject}/diff?from=1&to=2")["lines"]
    assert {line["kind"] for line in lines} == {"same", "added"}
    assert "age" in browser.get(f"/api/schemas/{subject}/versions/2")["schema"]
    (item,) = browser.get(f"/api/schemas?filter={subject}")["items"]
    assert (item["versions"], item["latest"], item["type"]) == (2, 2, "AVRO")


@pytest.mark.parametrize("name", ["a{b}", "a/b c?", "%2F{}", ":.lab:s"])
def test_subjects_of_any_name(browser: Browser, subject: str, name: str) -> None:
    path = f"/api/schemas/{quote(name + subject, safe='')}"
    browser.change("POST", path, {"schema": PERSON, "type": "AVRO"})
    assert browser.get(path)["subject"] == name + subject


def test_references_name_the_context(browser: Browser, registry: RegistryProcess, subject: str) -> None:
    outer = '{"type":"record","name":"O","fields":[{"name":"p","type":"x.Person"}]}'
    reference = SchemaReference("x.Person", f"inner-{subject}", 1)
    with SchemaRegistryClient({"url": registry.url}) as client:
        client.register_schema(f":.lab:inner-{subject}", Schema(PERSON, "AVRO"))
        client.register_schema(f":.lab:{subject}", Schema(outer, "AVRO", [reference]))
    latest = browser.get(f"/api/schemas/{quote(f':.lab:{subject}', safe='')}")["latest"]
    assert latest["references"] == [{"name": "x.Person", "subject": f":.lab:inner-{subject}", "version": 1}]


def test_compatibility_and_deletion(browser: Browser, subject: str) -> None:
    browser.change("POST", f"/api/schemas/{subject}", {"schema": PERSON})
    changed = browser.change("PUT", f"/api/schemas/{subject}/compatibility", {"compatibility": "none"})
    assert changed["plan"] == [f"New versions of {subject} must be NONE; now it is BACKWARD."]
    assert browser.get(f"/api/schemas/{subject}")["compatibility_source"] == "subject"
    browser.change("POST", f"/api/schemas/{subject}", {"schema": RENAMED})
    browser.change("DELETE", f"/api/schemas/{subject}", {"version": 1})
    browser.change("DELETE", f"/api/schemas/{subject}", {})
    assert browser.failure("GET", f"/api/schemas/{subject}") == (404, "NOT_FOUND")


def test_values_are_decoded_by_the_registry(
    browser: Browser, cluster: ottla.testing.Cluster, registry: RegistryProcess
) -> None:
    topic = f"people-{uuid.uuid4().hex[:8]}"
    browser.change("POST", "/api/topics", {"name": topic, "partitions": 1})
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer = AvroSerializer(client, WITH_AGE)
        value = serializer({"name": "Ada", "age": 36}, SerializationContext(topic, MessageField.VALUE))
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, value=value)
    producer.produce(topic, value=b"\x00\x00\x0f\xff\xff none such")
    producer.flush(60)
    unknown, known = browser.get(f"/api/topics/{topic}/messages")["items"]
    assert (known["value"]["type"], known["value"]["value"]) == ("avro", {"name": "Ada", "age": 36})
    assert known["value"]["schema_id"] > 0
    assert unknown["value"]["type"] == "hex"
    assert unknown["value"]["error"]
    path = f"/api/topics/{topic}/messages?from=earliest&filter=%3D+value.age+%3E+30"
    assert len(browser.get(path)["items"]) == 1
    assert browser.get(f"/api/topics/{topic}")["link_schema"] == f"{topic}-value"


def test_connectors(browser: Browser, worker: FakeWorker) -> None:
    (item,) = browser.get("/api/connectors?filter=LINES")["items"]
    assert (item["state"], item["tasks"], item["failed_tasks"]) == ("RUNNING", 1, 1)
    connector = browser.get("/api/connectors/lines")
    assert connector["task_list"][0]["trace"] == "it broke"
    assert connector["config"]["db.password"] == "[hidden]"
    browser.change("POST", "/api/connectors/lines/pause", {})
    assert browser.get("/api/connectors/lines")["state"] == "PAUSED"
    browser.change("POST", "/api/connectors/lines/resume", {})
    browser.change("POST", "/api/connectors/lines/tasks/0/restart", {})
    browser.change("POST", "/api/connectors/lines/restart", {"dry_run": True})
    assert worker.restarted == ["/connectors/lines/tasks/0/restart"]
    changed = browser.change("PUT", "/api/connectors/lines", {"config": {**connector["config"], "file": "b"}})
    assert changed["plan"] == ["Changes file of connector lines, and restarts its tasks."]
    assert worker.configs["lines"]["db.password"] == "hidden-word"
    assert "hidden-word" not in str(changed)
    assert browser.failure("GET", "/api/connectors/none") == (404, "NOT_FOUND")


def test_secrets_of_a_new_connector_are_not_told(browser: Browser, console: ConsoleProcess) -> None:
    secrets = {"pin": "pin-secret", "db.password": "db-secret", "producer.override.ssl.keystore.key": "pem-secret"}
    config = {"connector.class": "FileStreamSource", "file": "a", **secrets}
    created = browser.change("POST", "/api/connectors", {"name": "secretive", "config": config})
    shown = browser.get("/api/connectors/secretive")["config"]
    assert all(shown[key] == "[hidden]" for key in secrets)
    browser.change("DELETE", "/api/connectors/secretive", {})
    assert "--set pin=..." in console.log
    for secret in secrets.values():
        assert secret not in str(created)
        assert secret not in console.log


def test_a_connector_is_made_and_deleted(browser: Browser) -> None:
    body = {"name": "new", "config": {"connector.class": "org.example.FileStreamSource", "file": "x"}}
    wrong = {"name": "new", "config": {"connector.class": "FileStreamSource"}, "dry_run": True}
    assert browser.failure("POST", "/api/connectors", wrong) == (400, "INVALID_REQUEST")
    browser.change("POST", "/api/connectors", body)
    assert browser.failure("POST", "/api/connectors", body) == (409, "UPSTREAM")
    browser.change("DELETE", "/api/connectors/new", {})
    assert browser.get("/api/connector-plugins")["items"]


def test_a_registry_that_is_gone(cluster: ottla.testing.Cluster) -> None:
    with console_process(cluster.bootstrap, "--registry", "http://127.0.0.1:1") as running:
        browser = running.browser()
        status, answer = browser.ask("GET", "/api/schemas")
        assert (status, answer["error"]["code"]) == (502, "UPSTREAM")
        assert answer["error"]["message"] == (
            "The Schema Registry at http://127.0.0.1:1 does not answer: Connection refused."
        )
        browser.change("POST", "/api/topics", {"name": "alone", "partitions": 1})
        assert browser.get("/api/topics/alone")["link_schema"] is None
