"""Long Protobuf schemas are parsed on a thread: other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.registry.core import parsing
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.values import SchemaContent
from ottla.registry.node import long_schemas
from ottla.serdes.formats import PROTOBUF

LONG = "\n".join(f"message M{number} {{ string text = 1; }}" for number in range(300))


def test_the_loop_is_free_while_a_long_schema_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    service: Any = SimpleNamespace(registry=registry)
    may_end, threads = threading.Event(), []
    parse = long_schemas.parse

    def slow_parse(source: Any) -> Any:
        threads.append(threading.current_thread())
        assert may_end.wait(60)
        return parse(source)

    monkeypatch.setattr(long_schemas, "parse", slow_parse)

    async def run() -> None:
        request = schema_request({"schema": LONG, "schemaType": PROTOBUF}, "s")
        parsing_it = asyncio.ensure_future(long_schemas.parse_long_schemas(service, "s", request))
        while not threads:
            # The loop runs, or this would never end.
            await asyncio.sleep(0)
        assert not parsing_it.done()
        may_end.set()
        await parsing_it

    asyncio.run(run())
    assert threads[0] is not threading.main_thread()

    def refuse(_: Any) -> Any:
        raise AssertionError("it was parsed already")

    monkeypatch.setattr(parsing, "parse", refuse)
    registry.schemas.parsed(SchemaContent(schema_type=PROTOBUF, text=LONG))


def test_what_cannot_be_parsed_is_left_to_the_decision() -> None:
    service: Any = SimpleNamespace(registry=Registry())
    request = schema_request({"schema": LONG + "message {", "schemaType": PROTOBUF}, "s")
    asyncio.run(long_schemas.parse_long_schemas(service, "s", request))
    assert service.registry.schemas.unparsed("s", SchemaContent(schema_type=PROTOBUF, text=request.text))
