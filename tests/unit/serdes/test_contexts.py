"""References of schemas in a context, with a registry that answers them without the context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.schema_serde import referenced_texts
from ottla.serdes.subjects import context_prefix, in_context_of
from tests.support.http_servers import AnsweringHandler, http_server

TRIP = {"schema": "trip", "references": [{"name": "City", "subject": "city", "version": 1}]}
VERSION = {"subject": ":.lab:trip", "version": 1, "id": 1}
ANSWERS = {
    "/subjects/:.lab:trip/versions/1": TRIP | VERSION,
    "/subjects/:.lab:trip/versions/latest": TRIP | VERSION,
    # Older registries do not tell the subject of an id.
    "/schemas/ids/1": TRIP,
    "/subjects/:.lab:city/versions/1": {"schema": "city in the context"},
    "/subjects/city/versions/1": {"schema": "another city"},
}


class OlderRegistry(AnsweringHandler):
    """Knows nothing of `referenceFormat`."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        assert parse_qs(parts.query)["referenceFormat"] == ["qualified"]
        self.answer_json(200, json.dumps(ANSWERS[unquote(parts.path)]).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer_json(200, b'{"id": 1}')


@pytest.fixture
def client() -> Iterator[RegistryClient]:
    with http_server(OlderRegistry) as address:
        client = RegistryClient(f"http://{address}")
        yield client
        client.close()


def city(client: RegistryClient, schema: SchemaText) -> str:
    return referenced_texts(client, schema)["City"].text


def test_references_without_a_context_are_in_that_of_their_schema(client: RegistryClient) -> None:
    subject = ":.lab:trip"
    own = SchemaText("trip", references=(("City", "city", 1),))
    for schema in (
        client.version(subject, 1),
        client.latest(subject).schema,
        client.schema_by_id(1, subject),
        client.schema_by_id(1, ":.lab:"),
        client.register(subject, own).schema,
    ):
        assert city(client, schema) == "city in the context"
    assert city(client, client.schema_by_id(1, "trip")) == "another city"
    assert city(client, client.register("trip", own).schema) == "another city"


@pytest.mark.parametrize(
    ("referrer", "subject", "full_name"),
    [
        ("a", "b", "b"),
        (":.:a", "b", "b"),
        (":.lab:a", "b", ":.lab:b"),
        (":.lab:", "b", ":.lab:b"),
        (":.lab:a", ":.other:b", ":.other:b"),
        # As in the registry: the name of the default context says no more than no context.
        (":.lab:a", ":.:b", ":.lab:b"),
        (":.lab:a", ":b", ":.lab::b"),
        ("a", ":.lab:b", ":.lab:b"),
        (":.lab", "b", "b"),
        ("", "b", "b"),
    ],
)
def test_the_full_name_of_a_reference(referrer: str, subject: str, full_name: str) -> None:
    assert in_context_of(referrer, subject) == full_name


@pytest.mark.parametrize(("subject", "prefix"), [(":.lab:a", ":.lab:"), (":.:a", ""), ("a:b", ""), (":a:b", "")])
def test_the_context_of_a_subject(subject: str, prefix: str) -> None:
    assert context_prefix(subject) == prefix
