"""Answers that list all objects of a kind: all groups, all replicas, all access rules.

The request is short, and the state of the node decides how long the answer is. So the handler's work is a generator
that pauses after every `ENTRIES_PER_SLICE` entries. A short answer ends before the first pause, and is made in the turn
of its request. A longer one is continued in later turns (`model.slices`), and is encoded in slices, too.

The node's state can change between two slices. A generator therefore iterates over a list or an immutable image.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar

from ottla.model.deferred import Deferred
from ottla.wire.message import Message
from ottla.wire.packed import PackedResponse
from ottla.wire.schema import fields_at
from ottla.wire.slicing import encode_in_slices

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["ENTRIES_PER_SLICE", "answer_in_slices", "throttle_position"]

# An entry takes up to five microseconds.
ENTRIES_PER_SLICE = 1_000

M = TypeVar("M", bound=Message)


def answer_in_slices(
    steps: Generator[None, None, M], context: RequestContext, broker: Broker
) -> Deferred[M | PackedResponse]:
    """The response that the steps return."""
    prepared = broker.replicas.slices.start(context.while_connected(steps))
    if prepared.done:
        return prepared  # type: ignore[return-value]
    return prepared.and_then(lambda response: broker.replicas.slices.run(_encode(response, context.api_version)))


def throttle_position(response: type[Message], version: int) -> int | None:
    """The throttle time is the first field of most responses. Elsewhere its place depends on other fields."""
    first = next(field for field in fields_at(response, version) if field.present)
    return 0 if first.name == "throttle_time_ms" else None


def _encode(response: Message, version: int) -> Generator[None, None, PackedResponse]:
    parts = yield from encode_in_slices(response, version)
    return PackedResponse(
        parts,
        throttle_position=throttle_position(type(response), version),
        throttle_time_ms=getattr(response, "throttle_time_ms", 0),
        error_code=getattr(response, "error_code", 0),
    )
