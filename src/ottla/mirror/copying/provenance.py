"""The way of a record through clusters, in a header: where topics keep their names, it cuts cycles.

With names like `source.topic` the name tells where a topic came from. Under identity naming, two clusters that copy
from each other would copy every record for ever.
"""

from __future__ import annotations

from ottla.client.consumer.decode import ConsumedRecord

__all__ = ["WAY_HEADER", "way_of", "with_way"]

WAY_HEADER = "ottla.mirror.way"
"""The names of the clusters that a record was in, in their order, separated by commas."""


def way_of(record: ConsumedRecord) -> list[str]:
    for name, value in record.headers:
        if name == WAY_HEADER and value is not None:
            return value.decode(errors="replace").split(",")
    return []


def with_way(record: ConsumedRecord, source: str) -> ConsumedRecord:
    """The record with the source appended to its way."""
    way = [*way_of(record), source]
    other_headers = [header for header in record.headers if header[0] != WAY_HEADER]
    return record._replace(headers=[*other_headers, (WAY_HEADER, ",".join(way).encode())])
