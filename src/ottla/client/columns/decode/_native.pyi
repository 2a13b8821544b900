from typing import Any

class Columns:
    def __init__(self, with_headers: bool = True) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def size(self) -> int: ...
    def add(
        self,
        payload: bytes | bytearray | memoryview,
        count: int,
        base_offset: int,
        base_timestamp: int,
        uses_append_time: bool,
        append_timestamp: int,
        first: int,
        end: int,
        /,
    ) -> None: ...
    def finish(self) -> tuple[Any, ...]: ...
