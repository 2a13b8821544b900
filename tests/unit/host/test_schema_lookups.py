"""Questions of a broker to a Schema Registry: where the password goes, and what errors show."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from ottla.host.schema_lookups import ask_registry
from tests.support.http_servers import AnsweringHandler, http_server


class Registry(AnsweringHandler):
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.answer(302 if self.path == "/moved" else 200, b"[]", Location="/elsewhere")


@pytest.fixture
def address() -> Iterator[str]:
    Registry.asked = []
    with http_server(Registry) as address:
        yield address


def test_a_redirection_does_not_get_the_password(address: str) -> None:
    with pytest.raises(OSError, match="answers with status 302"):
        ask_registry([f"http://{address}"], "user:secret", 5.0, "/moved")
    assert [path for path, _ in Registry.asked] == ["/moved"]


def test_the_login_of_an_address_is_used_and_not_shown(address: str) -> None:
    assert ask_registry([f"http://user:se%20cret@{address}/"], "", 5.0, "/x") == b"[]"
    assert Registry.asked == [("/x", f"Basic {base64.b64encode(b'user:se cret').decode()}")]
    with pytest.raises(OSError, match=f"^http://{address} answers with status 302$"):
        ask_registry([f"http://user:secret@{address}"], "", 5.0, "/moved")
