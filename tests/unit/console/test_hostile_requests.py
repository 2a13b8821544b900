"""No request and no record makes the console fail."""

from __future__ import annotations

import asyncio
import json
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.console.answers import ApiError, error_answer, error_body, json_answer, to_json
from ottla.console.routes.replicas import _target
from ottla.console.server import STATIC, _body, _is_file

HALF = "\ud800"


def test_half_a_surrogate_pair_of_a_record_is_shown() -> None:
    assert json.loads(to_json({"value": HALF, HALF: 1})) == {"value": HALF, HALF: 1}
    assert json_answer([HALF]).body == b'["\\ud800"]'
    assert error_answer(ApiError(400, "INVALID_REQUEST", HALF)).status == 400


class Request:
    content_type = "application/json"

    def __init__(self, text: str = "", charset: str | None = None) -> None:
        self._text = text
        self.charset = charset

    async def text(self) -> str:
        if self.charset is not None:
            raise LookupError(self.charset)
        return self._text


@pytest.mark.parametrize(("request_", "status"), [(Request("[" * 100_000), 400), (Request(charset="none"), 415)])
def test_a_body_that_cannot_be_read(request_: Any, status: int) -> None:
    with pytest.raises(ApiError) as caught:
        asyncio.run(_body(request_))
    assert caught.value.status == status


@pytest.mark.parametrize("error", [OverflowError("int too large"), struct.error("argument out of range")])
def test_a_number_that_the_protocol_cannot_hold(error: Exception) -> None:
    assert error_body(error)[0] == 400


def test_a_path_that_no_file_can_have() -> None:
    assert not _is_file(STATIC / ("a" * 5_000))
    assert not _is_file(STATIC / "\0")


@pytest.mark.parametrize("body", [{"brokers": [[]]}, {"brokers": [{}]}, {"brokers": [True]}, {"brokers": 1}])
def test_brokers_are_a_list_of_numbers(body: dict[str, Any]) -> None:
    call: Any = SimpleNamespace(body=body, names=lambda _name: ["t"])
    state: Any = SimpleNamespace(brokers={1: None})
    with pytest.raises(ApiError):
        asyncio.run(_target(call, state))
