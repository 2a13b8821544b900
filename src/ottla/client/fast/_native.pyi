from collections.abc import Sequence
from typing import Any

def append_record(
    payload: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | bytearray | memoryview | None,
    value: bytes | bytearray | memoryview | None,
    headers: Sequence[tuple[str, bytes | None]],
    /,
) -> int: ...
def partition_of_key(key: bytes, partitions: int, /) -> int: ...
def decode_records(
    record_type: type[Any],
    payload: bytes | bytearray | memoryview,
    count: int,
    topic: str,
    partition: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    kind: int,
    epoch: int,
    from_offset: int,
    limit: int,
    /,
) -> list[Any]: ...
