"""A registry that answers 429 asks its client to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat

import pytest

from ottla.serdes.avro import AvroDeserializer
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegistryClient, RegistryClientError, is_registry_failure
from tests.support.http_servers import AnsweringHandler, http_server

# A status, and the value of Retry-After.
Answer = tuple[int, str | None]
OK: Answer = (200, None)


@contextmanager
def busy_client(*answers_by_registry: Iterator[Answer]) -> Iterator[tuple[RegistryClient, list[float]]]:
    """A client of registries with these answers, and the seconds of its pauses."""
    pauses: list[float] = []
    with ExitStack() as stack:
        addresses = [stack.enter_context(http_server(_handler(answers))) for answers in answers_by_registry]
        client = RegistryClient([f"http://{address}" for address in addresses], sleep=pauses.append)
        yield client, pauses
        client.close()


def _handler(answers: Iterator[Answer]) -> type[AnsweringHandler]:
    class Handler(AnsweringHandler):
        def do_GET(self) -> None:
            status, pause = next(answers)
            headers = {} if pause is None else {"Retry-After": pause}
            self.answer_json(status, b'{"error_code": 429, "message": "busy"}' if status > 299 else b"[]", **headers)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

    return Handler


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3.0), ("0", 0.0), (None, 1.0), ("soon", 1.0), ("Thu, 19 Nov 2026 21:00:00 GMT", 1.0)]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_is_repeated_after_the_pause(method: str, header: str | None, seconds: float) -> None:
    with busy_client(iter([(429, header), (429, header), OK])) as (client, pauses):
        assert client.call(method, "/subjects", None if method == "GET" else {}) == []
    assert pauses == [seconds, seconds]


def test_a_registry_that_stays_busy_is_no_reason_against_a_record() -> None:
    with busy_client(repeat((429, "2"))) as (client, pauses):
        with pytest.raises(RegistryClientError, match="busy") as caught:
            client.call("GET", "/subjects")
        with pytest.raises(SerializationError, match="busy") as failed:
            AvroDeserializer(client=client).deserialize("t", b"\0\0\0\0\1x")
    assert caught.value.status == 429
    assert is_registry_failure(caught.value)
    assert is_registry_failure(failed.value)
    assert pauses == [2.0] * 6


@pytest.mark.parametrize("header", ["11", "9" * 400])
def test_a_long_pause_is_a_failure(header: str) -> None:
    with busy_client(repeat((429, header))) as (client, pauses), pytest.raises(RegistryClientError, match="busy"):
        client.call("GET", "/subjects")
    assert pauses == []


def test_the_next_registry_may_have_time() -> None:
    with busy_client(repeat((429, "5")), iter([OK])) as (client, pauses):
        assert client.call("GET", "/subjects") == []
    assert pauses == []


@pytest.mark.parametrize("others", [[(503, None)], [(429, "60")]])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_shortest_pause_counts(others: list[Answer], *, is_first: bool) -> None:
    registries = [iter([(429, "5"), OK]), iter(others * 2)]
    with busy_client(*registries if is_first else reversed(registries)) as (client, pauses):
        assert client.call("GET", "/subjects") == []
    assert pauses == [5.0]


@pytest.mark.parametrize("status", [401, 404, 409, 500, 503])
def test_other_errors_are_not_repeated(status: int) -> None:
    with busy_client(iter([(status, "1")])) as (client, pauses), pytest.raises(RegistryClientError) as caught:
        client.call("GET", "/subjects")
    assert caught.value.status == status
    assert pauses == []
