from ottla.client.columns.encode.python import BytesColumn, EncodedBatch, HeadersColumn, NumbersColumn

class Encoder:
    def __new__(cls, *, partitions: int, limit: int, available: tuple[int, ...], seed: int) -> Encoder: ...
    def encode(
        self,
        *,
        rows: int,
        key: BytesColumn | None,
        value: BytesColumn | None,
        headers: HeadersColumn | None,
        timestamp: NumbersColumn | None,
        partition: NumbersColumn | None,
        suffix: bytes,
        suffix_count: int,
        now_ms: int,
    ) -> list[EncodedBatch]: ...
    def finish(self) -> list[EncodedBatch]: ...
