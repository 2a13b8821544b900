"""Foreign-key joins of tables (KIP-213): a left row subscribes to the right row that its value refers to.

Left rows send subscriptions to the partition of their foreign key; the right side answers with its row to the partition
of the left key, where an answer counts only if the left row has not changed since.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.operators.murmur3 import hash_128
from ottla.streams.operators.tables import View
from ottla.streams.record import Record
from ottla.streams.serdes import Serde

__all__ = [
    "ForeignTableJoin",
    "ResponseJoin",
    "ResponseSerde",
    "Subscription",
    "SubscriptionJoin",
    "SubscriptionReceive",
    "SubscriptionSend",
    "SubscriptionSerde",
]

_HASH_MISSING = 0x80
_INT = struct.Struct(">i")


class Instruction(IntEnum):
    DELETE_SILENTLY = 0
    DELETE_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_MISSING = 2
    PROPAGATE_IF_PRESENT = 3


class Subscription(NamedTuple):
    # The hash of the left row; None if it was deleted.
    hash: bytes | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int


class Response(NamedTuple):
    hash: bytes | None
    value: Any
    primary_partition: int | None


class SubscriptionSerde:
    """Version 1 of Kafka Streams' format. The inner serde is that of the left keys."""

    def __init__(self, inner: Serde | None) -> None:
        self.inner: Any = inner

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Serde:  # noqa: ARG002
        return SubscriptionSerde(self.inner or key_serde)

    def serialize(self, topic: str, value: Subscription) -> bytes:
        version = 1 | (_HASH_MISSING if value.hash is None else 0)
        key: bytes = self.inner.serialize(topic, value.primary_key)
        return bytes((version, value.instruction)) + (value.hash or b"") + key + _INT.pack(value.primary_partition)

    def deserialize(self, topic: str, data: bytes) -> Subscription:
        has_hash = not data[0] & _HASH_MISSING
        end = 18 if has_hash else 2
        return Subscription(
            data[2:18] if has_hash else None,
            Instruction(data[1]),
            self.inner.deserialize(topic, data[end:-4]),
            _INT.unpack(data[-4:])[0],
        )


class ResponseSerde:
    """Version 0 of Kafka Streams' format. The inner serde is that of the right values."""

    def __init__(self, inner: Serde | None) -> None:
        self.inner: Any = inner

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Serde:  # noqa: ARG002
        return ResponseSerde(self.inner or value_serde)

    def serialize(self, topic: str, value: Response) -> bytes:
        content: bytes = b"" if value.value is None else self.inner.serialize(topic, value.value)
        return bytes((0 if value.hash is not None else _HASH_MISSING,)) + (value.hash or b"") + content

    def deserialize(self, topic: str, data: bytes) -> Response:
        has_hash = not data[0] & _HASH_MISSING
        end = 17 if has_hash else 1
        value = self.inner.deserialize(topic, data[end:]) if len(data) > end else None
        return Response(data[1:17] if has_hash else None, value, None)


class _Serdes(NamedTuple):
    """The serdes of a join; None stands for the default of the application."""

    primary_key: Serde | None
    foreign_key: Serde | None
    value: Serde | None


class SubscriptionSend(Processor):
    def __init__(
        self,
        extractor: Callable[[Any, Any], Any],
        serdes: _Serdes,
        topic: str,
        *,
        is_left: bool,
        uses_versions: bool = False,
    ) -> None:
        self._extractor = extractor
        self._serdes = serdes
        self._topic = topic
        self._is_left = is_left
        self._uses_versions = uses_versions

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._foreign_serde = context.resolve_key(self._serdes.foreign_key)
        self._value_serde = context.resolve_value(self._serdes.value)
        # The partition of the task: a left row that a punctuation forwards has no source record.
        self._partition = int(context.task_id.rpartition("_")[2])

    def process(self, record: Record) -> None:
        change = record.value
        if self._uses_versions and not change.is_latest:
            self.context.drop("out-of-order update of a versioned table")
            return
        old = None if change.old is None else self._extractor(record.key, change.old)
        new = None if change.new is None else self._extractor(record.key, change.new)
        if self._is_left:
            self._send_left(record, old, new)
        else:
            self._send_inner(record, old, new)

    def _send_left(self, record: Record, old: Any, new: Any) -> None:
        if record.value.old is None and record.value.new is None:
            return
        if old is not None and self._bytes(old) != self._bytes(new):
            self._forward(record, old, Instruction.DELETE_SILENTLY)
        self._forward(record, new, Instruction.PROPAGATE_NULL_IF_MISSING)

    def _send_inner(self, record: Record, old: Any, new: Any) -> None:
        if new is None:
            if record.value.new is not None:
                self.context.drop("null foreign key")
            if old is not None:
                self._forward(record, old, Instruction.DELETE_AND_PROPAGATE)
        elif old is None or self._bytes(old) == self._bytes(new):
            self._forward(record, new, Instruction.PROPAGATE_IF_PRESENT)
        else:
            self._forward(record, old, Instruction.DELETE_SILENTLY)
            self._forward(record, new, Instruction.PROPAGATE_NULL_IF_MISSING)

    def _bytes(self, key: Any) -> bytes | None:
        return None if key is None else self._foreign_serde.serialize(self._topic, key)

    def _forward(self, record: Record, foreign_key: Any, instruction: Instruction) -> None:
        value = record.value.new
        digest = None if value is None else hash_128(self._value_serde.serialize(self._topic, value))
        subscription = Subscription(digest, instruction, record.key, self._partition)
        self.context.forward(record.with_key(foreign_key).with_value(subscription))


class _SubscriptionStoreProcessor(Processor):
    """A processor with the store of subscriptions, by foreign and primary key."""

    def __init__(self, store: str, serdes: _Serdes) -> None:
        self._name = store
        self._serdes = serdes

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._name)
        self._foreign_serde = context.resolve_key(self._serdes.foreign_key)
        self._primary_serde = context.resolve_key(self._serdes.primary_key)
        self._subscription_serde = SubscriptionSerde(self._primary_serde)


class SubscriptionReceive(_SubscriptionStoreProcessor):
    """Keeps subscriptions, so that changes of the right row reach its subscribers."""

    def process(self, record: Record) -> None:
        subscription: Subscription = record.value
        if record.key is None:
            if subscription.instruction is not Instruction.PROPAGATE_NULL_IF_MISSING:
                self.context.drop("null foreign key")
                return
        else:
            foreign = self._foreign_serde.serialize(self._name, record.key)
            primary = self._primary_serde.serialize(self._name, subscription.primary_key)
            if subscription.instruction in (Instruction.DELETE_AND_PROPAGATE, Instruction.DELETE_SILENTLY):
                self._store.delete(foreign, primary)
            else:
                content = self._subscription_serde.serialize(self._name, subscription)
                self._store.put(foreign, primary, content, record.timestamp)
        self.context.forward(record)


class SubscriptionJoin(Processor):
    """Answers a subscription with the right row."""

    def __init__(self, view: View) -> None:
        self._view = view

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._getter = self._view.getter(context)

    def process(self, record: Record) -> None:
        subscription: Subscription = record.value
        row = None if record.key is None else self._getter.get(record.key)
        timestamp = record.timestamp if row is None else max(record.timestamp, row.timestamp)
        instruction = subscription.instruction
        if instruction is Instruction.DELETE_SILENTLY or (
            instruction is Instruction.PROPAGATE_IF_PRESENT and row is None
        ):
            return
        deleted = instruction is Instruction.DELETE_AND_PROPAGATE
        value = None if row is None or deleted else row.value
        response = Response(subscription.hash, value, subscription.primary_partition)
        self.context.forward(Record(subscription.primary_key, response, timestamp, record.headers))


class ForeignTableJoin(_SubscriptionStoreProcessor):
    """Sends the change of a right row to all of its subscribers."""

    def __init__(self, store: str, serdes: _Serdes, *, uses_versions: bool = False) -> None:
        super().__init__(store, serdes)
        self._uses_versions = uses_versions

    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop("null key")
            return
        if self._uses_versions and not record.value.is_latest:
            self.context.drop("out-of-order update of a versioned table")
            return
        foreign = self._foreign_serde.serialize(self._name, record.key)
        for _, content, _ in self._store.subscribers(foreign):
            subscription = self._subscription_serde.deserialize(self._name, content)
            response = Response(subscription.hash, record.value.new, subscription.primary_partition)
            self.context.forward(Record(subscription.primary_key, response, record.timestamp, record.headers))


class ResponseJoin(Processor):
    """Joins the answer with the left row, unless that row has changed since."""

    def __init__(
        self, view: View, serdes: _Serdes, topic: str, joiner: Callable[[Any, Any], Any], *, is_left: bool
    ) -> None:
        self._view = view
        self._serdes = serdes
        self._topic = topic
        self._joiner = joiner
        self._is_left = is_left

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._getter = self._view.getter(context)
        self._value_serde = context.resolve_value(self._serdes.value)

    def process(self, record: Record) -> None:
        response: Response = record.value
        row = self._getter.get(record.key)
        digest = None if row is None else hash_128(self._value_serde.serialize(self._topic, row.value))
        if digest != response.hash:
            return
        if response.value is None and (not self._is_left or row is None):
            result = None
        else:
            result = self._joiner(None if row is None else row.value, response.value)
        self.context.forward(record.with_value(result))


ForeignKeySerdes = _Serdes
