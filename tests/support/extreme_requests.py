"""Well-formed requests with extreme values: counts, sizes, offsets, epochs, times, repeats, nesting.

Random bytes rarely pass the decoder. These requests always do, and most of their fields have ordinary values, so that
the extreme values get past the first checks: numbers at the limits of their type, names that are too long, repeated
elements, batches whose headers contradict their records, requests within requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS
from ottla.model.ids import Uuid
from ottla.records.build import assemble_batch
from ottla.records.compression import Codec
from ottla.records.record import append_contents, record_content
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message, Structure
from ottla.wire.schema import FieldSpec, fields_at
from tests.support.lone_node import frame_of

__all__ = ["ExtremeRequests", "versions_of"]

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
NESTING_MAX = 3
REPEATS = (2, 3, 50, 1_000)
# Nested repeats multiply: an element with its content is repeated up to this size, in bytes.
REPEATED_WEIGHT_MAX = 300_000

# Values of fields, by name, with which a request gets beyond the first checks.
USUAL: Mapping[str, Sequence[Any]] = {
    "acks": (-1, 0, 1),
    "broker_id": (1,),
    "config_operation": (0, 1, 2, 3),
    "count": (1, 5),
    "current_leader_epoch": (-1, 0),
    "entity_type": ("client-id", "user", "ip"),
    "feature": ("group.version", "metadata.version"),
    "generation_id": (-1, 0, 1),
    "generation_id_or_member_epoch": (-1, -1, 0, 1),
    "group_id": ("g", "g", "h"),
    "group_instance_id": ("i",),
    "member_id": ("", "", "m"),
    "isolation_level": (0, 1),
    "key_type": (0, 1),
    "mechanism": (1, 2),
    "iterations": (4096,),
    "num_partitions": (-1, 1, 3),
    "operation": (1, 2, 3, 4),
    "partition_max_bytes": (1 << 20,),
    "pattern_type": (3, 4),
    "permission_type": (2, 3),
    "producer_epoch": (0, 1, -1),
    "producer_id": (0, 1, 1000, -1),
    "protocol_type": ("consumer",),
    "rebalance_timeout_ms": (100, 60_000),
    "replica_id": (-1,),
    "replication_factor": (-1, 1),
    "resource_type": (2, 3, 4),
    "session_timeout_ms": (10_000, 30_000),
    "timestamp": (-1, -2, 0),
    "transactional_id": ("x", "x", "y"),
    "transaction_timeout_ms": (1_000, 60_000),
}
NAMES = ("t", "c", "g", "x", "__consumer_offsets", "__transaction_state", "range", "cleanup.policy", "compact", "a", "")
EXTREME_NAMES = (
    "",
    ".",
    "..",
    "a" * 249,
    "a" * 250,
    "b" * 32_767,
    "\0",
    "a\nb",
    "ü" * 100,
    "\N{GRINNING FACE}",
    "-1",
    "9" * 400,
    "1e308",
    "NaN",
    "(.?){1000}",
    "((){1000}){1000}",
    "%s%n",
    "../../etc",
)


def versions_of(api_key: int, *, at_controller: bool) -> range:
    handler = (CONTROLLER_HANDLERS if at_controller else HANDLERS)[api_key]
    first, last = API_SPECS[ApiKey(api_key)].request_class.VERSIONS
    return range(max(first, handler.min_version), min(last, handler.max_version) + 1)


class ExtremeRequests:
    """Draws requests from a seed."""

    def __init__(self, random: Random, topic_ids: Sequence[Uuid]) -> None:
        self._random = random
        self._topic_ids = topic_ids
        # The share of extreme values.
        self._boldness = 0.0
        self._depth = 0

    def draw(self, api_key: int, version: int) -> Message:
        self._boldness = self._random.choice((0.05, 0.1, 0.2, 0.4, 1.0))
        return self._structure(API_SPECS[ApiKey(api_key)].request_class, version)

    def _structure(self, cls: type[Structure], version: int) -> Any:
        return cls(**{field.name: self._value(field, version) for field in fields_at(cls, version) if field.present})

    def _is_extreme(self) -> bool:
        return self._random.random() < self._boldness

    def _value(self, field: FieldSpec, version: int) -> Any:
        random = self._random
        if field.nullable and random.random() < 0.1 + self._boldness / 4:
            return None
        if field.tag is not None and field.structure is not None and not field.is_array and random.random() < 0.5:
            return None
        if not field.is_array:
            return self._element(field, version)
        elements = [self._element(field, version) for _ in range(random.choice((0, 1, 1, 1, 2)))]
        if elements and self._is_extreme():
            elements += [elements[0]] * min(random.choice(REPEATS), REPEATED_WEIGHT_MAX // _weight(elements[0]))
        return elements

    def _element(self, field: FieldSpec, version: int) -> Any:
        random, kind = self._random, field.kind
        if field.structure is not None:
            return self._structure(field.structure, version)
        if kind == "bool":
            return random.random() < 0.5
        if kind == "float64":
            return random.choice((0.0, 1.0, -1.0, 1e308, -1e308, math.nan, math.inf, -math.inf, 5e-324))
        if kind == "uuid":
            return random.choice((*self._topic_ids, Uuid.ZERO, Uuid(random.randbytes(16))))
        if kind == "records":
            return self._records()
        if kind == "bytes":
            return self._bytes(field)
        usual = USUAL.get(field.name)
        if kind in ("string", "classic_string"):
            texts = [value for value in usual or () if isinstance(value, str)]
            return random.choice(EXTREME_NAMES) if self._is_extreme() else random.choice(texts or NAMES)
        return self._number(kind, usual)

    def _number(self, kind: str, usual: Sequence[Any] | None) -> int:
        random = self._random
        if kind in BITS:
            half = 1 << (BITS[kind] - 1)
            low, high = -half, half - 1
        else:
            low, high = 0, (1 << UNSIGNED_BITS[kind]) - 1
        if not self._is_extreme():
            fitting = [value for value in usual or () if isinstance(value, int) and low <= value <= high]
            return random.choice(fitting) if fitting else random.choice((0, 1))
        return random.choice((low, low + 1, max(low, -2), max(low, -1), 0, 1, 2, 127, high - 1, high))

    def _bytes(self, field: FieldSpec) -> memoryview:
        random = self._random
        if field.name == "request_data" and self._depth < NESTING_MAX:
            # An Envelope: a request in a request.
            self._depth += 1
            api_key = random.choice(sorted(CONTROLLER_HANDLERS))
            version = random.choice(versions_of(api_key, at_controller=True))
            frame = frame_of(api_key, version, self._structure(API_SPECS[ApiKey(api_key)].request_class, version))
            self._depth -= 1
            return memoryview(frame)
        sizes = (0, 1, 2, 6, 30, 300, 5_000) if self._is_extreme() else (0, 6, 30)
        # Versions and counts at their limits, for bytes that are a consumer's subscription or assignment.
        beginning = random.choice(
            (b"", b"\0\0\0\0\0\1\0\1t", b"\0\1\x7f\xff\xff\xff", b"\xff\xff", b"\x7f\xff\xff\xff\xff")
        )
        return memoryview(beginning + random.randbytes(random.choice(sizes)))

    def _records(self) -> memoryview:
        """A batch with a valid checksum, whose header may contradict its records."""
        random = self._random
        count = random.choice((1, 1, 2, 30))
        payload = bytearray()
        key = random.choice((None, b"", b"k" * 100))
        append_contents(payload, [record_content(key, b"v" * 10)] * count, first_offset_delta=0, timestamp_delta=0)
        if self._is_extreme():
            payload = bytearray(random.choice((b"", payload[:-3], payload * 50, b"\xff" * 50, bytes(100_000))))

        def number(usual: int, bits: int) -> int:
            if not self._is_extreme():
                return usual
            half = 1 << (bits - 1)
            return random.choice((-half, -2, -1, 0, 1, half - 1))

        fields: dict[str, Any] = {}
        if random.random() < 0.3:
            fields = {
                "producer_id": number(random.choice((0, 1000)), 64),
                "producer_epoch": number(0, 16),
                "base_sequence": number(0, 32),
            }
        codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
        attributes = codec | (random.randrange(1 << 15) if self._is_extreme() else 0)
        try:
            batch = assemble_batch(
                payload,
                base_offset=number(0, 64),
                last_offset_delta=number(count - 1, 32),
                record_count=number(count, 32),
                attributes=attributes,
                base_timestamp=number(0, 64),
                max_timestamp=number(0, 64),
                **fields,
            )
        except Exception:  # noqa: BLE001 - a combination that cannot be written down
            return memoryview(bytes(61))
        return memoryview(bytes(batch) * (random.choice((1, 1, 2, 50)) if self._is_extreme() else 1))


def _weight(value: Any) -> int:
    """The approximate size of an encoded value, in bytes."""
    if isinstance(value, Structure):
        return 1 + sum(_weight(getattr(value, name)) for name in value.__slots__)
    if isinstance(value, list):
        return 4 + sum(map(_weight, value))
    return 2 + len(value) if isinstance(value, str | memoryview) else 8
