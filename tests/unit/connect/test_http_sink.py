"""Requests to a web service: how records become requests, and what is done about each answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ottla.connect.api import ConfigValue, ConnectError, RetriableError
from ottla.connect.plugins.connectors.http import HttpSinkConnector, HttpWriter


class Service:
    """Records requests and answers with a list of statuses, then 200."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: list[int | None] = []
        self.retry_after = ""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.requests.append({"path": self.path, "body": body.decode(), "headers": dict(self.headers)})
                status = service.answers.pop(0) if service.answers else 200
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "2")
                if service.retry_after:
                    self.send_header("Retry-After", service.retry_after)
                self.end_headers()
                self.wfile.write(b"no")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service() -> Iterator[Service]:
    http_service = Service()
    yield http_service
    http_service.server.shutdown()
    http_service.server.server_close()


def writer(service: Service, **config: str) -> tuple[HttpWriter, list[float]]:
    waits: list[float] = []
    named = {f"http.{name.replace('_', '.')}": text for name, text in config.items()}
    settings = HttpSinkConnector.config_definitions().parse({"http.url": f"{service.url}/in/${{topic}}", **named})
    return HttpWriter(settings, wait=waits.append), waits


def send(http_writer: HttpWriter, records: list[tuple[str, str]]) -> None:
    try:
        for request in http_writer.requests(records, "c-0-e-0"):
            http_writer.send(request)
    finally:
        http_writer.close()


def test_records_are_gathered_by_topic_and_number(service: Service) -> None:
    http_writer, _ = writer(service, batch_records="2")
    send(http_writer, [("a", "1"), ("a", "2"), ("a", "3"), ("b c", '{"x":1}')])
    assert [(request["path"], json.loads(request["body"])) for request in service.requests] == [
        ("/in/a", [1, 2]),
        ("/in/a", [3]),
        ("/in/b%20c", [{"x": 1}]),
    ]
    keys = [request["headers"]["Idempotency-Key"] for request in service.requests]
    assert keys == ["c-0-e-0-0", "c-0-e-0-1", "c-0-e-0-2"]


def test_other_bodies_and_headers(service: Service) -> None:
    send(writer(service, body="json-lines", headers_X="y", authorization="Bearer t")[0], [("a", "1"), ("a", "2")])
    send(writer(service, body="single")[0], [("a", '"x"'), ("a", "null")])
    assert [request["body"] for request in service.requests] == ["1\n2\n", '"x"', "null"]
    assert service.requests[0]["headers"]["Authorization"] == "Bearer t"
    assert service.requests[0]["headers"]["X"] == "y"


def test_what_may_pass_is_sent_again_with_the_same_key(service: Service) -> None:
    service.answers = [503, None, 429, 200]
    http_writer, waits = writer(service, retry_backoff_ms="100")
    send(http_writer, [("a", "1")])
    assert len(service.requests) == 4
    assert len({request["headers"]["Idempotency-Key"] for request in service.requests}) == 1
    assert waits == [0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    ("retry_after", "seconds"), [("3", 3.0), ("86400", 60.0), ("9" * 400, 60.0), ("\u00b2", 0.1), ("soon", 0.1)]
)
def test_the_pause_is_that_of_the_service_up_to_a_minute(service: Service, retry_after: str, seconds: float) -> None:
    service.answers, service.retry_after = [503, 200], retry_after
    http_writer, waits = writer(service, retry_backoff_ms="100")
    send(http_writer, [("a", "1")])
    assert waits == [seconds]


def test_after_too_many_tries_the_batch_fails_for_now(service: Service) -> None:
    service.answers = [500, 500, 500]
    with pytest.raises(RetriableError, match="500"):
        send(writer(service, retries="2")[0], [("a", "1")])


def test_a_refusal_fails_the_task_or_is_skipped(service: Service) -> None:
    service.answers = [400]
    with pytest.raises(ConnectError, match="refused"):
        send(writer(service)[0], [("a", "1")])
    service.answers = [400]
    send(writer(service, on_error="skip", body="single")[0], [("a", "1"), ("a", "2")])
    assert service.requests[-1]["body"] == "2"


def test_a_refused_connection_is_retriable() -> None:
    settings = HttpSinkConnector.config_definitions().parse({"http.url": "http://127.0.0.1:9", "http.retries": "1"})
    with pytest.raises(RetriableError):
        send(HttpWriter(settings, wait=lambda _: None), [("a", "1")])


def test_errors_do_not_show_what_could_be_secret() -> None:
    config = {"http.url": "http://user:pass@127.0.0.1:9/x?token=t", "http.retries": "0"}
    settings = HttpSinkConnector.config_definitions().parse(config)
    with pytest.raises(RetriableError) as failure:
        send(HttpWriter(settings, wait=lambda _: None), [("a", "1")])
    assert "pass" not in str(failure.value)
    assert "token" not in str(failure.value)


def test_an_address_is_checked() -> None:
    values = {"http.url": ConfigValue(name="http.url", value="ftp://x", recommended=[], errors=[])}
    HttpSinkConnector().validate({"http.url": "ftp://x"}, values)
    assert values["http.url"].errors
