"""The figures that the doctor reads from a node's metrics: damaged segments, certificates, and failed logins."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

__all__ = ["DamagedSegmentMetric", "NodeMetrics", "parse_node_metrics", "read_node_metrics"]

TIMEOUT_SECONDS = 3.0

_DAMAGED = re.compile(r"^ottla_log_damaged_segment\{(?P<labels>[^}]*)\} 1", re.MULTILINE)
_CERTIFICATE = re.compile(
    r"^ottla_tls_certificate_expiry_timestamp_seconds\{(?P<labels>[^}]*)\} (?P<value>\S+)", re.MULTILINE
)
_LOGINS = re.compile(
    r"^kafka_server_socket_server_metrics_(?P<result>failed|successful)_authentication_total"
    r"\{(?P<labels>[^}]*)\} (?P<value>\S+)",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class DamagedSegmentMetric(NamedTuple):
    topic: str
    partition: int
    base_offset: int


class NodeMetrics(NamedTuple):
    damaged: list[DamagedSegmentMetric]
    # Listener -> when its certificate expires, in seconds since 1970.
    certificates: dict[str, float]
    # The failed logins on all listeners since the start of the node.
    failed_logins: int
    successful_logins: int


async def read_node_metrics(host: str, port: int) -> NodeMetrics:
    """Raises OSError if the endpoint cannot be read."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(host.strip("[]"), port)
        try:
            writer.write(f"GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read(-1)
        finally:
            writer.close()
    return parse_node_metrics(answer.decode("utf-8", "replace"))


def parse_node_metrics(text: str) -> NodeMetrics:
    segments = []
    for match in _DAMAGED.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        segments.append(DamagedSegmentMetric(labels["topic"], int(labels["partition"]), int(labels["offset"])))
    certificates = {
        dict(_LABEL.findall(match["labels"])).get("listener", ""): float(match["value"])
        for match in _CERTIFICATE.finditer(text)
    }
    logins = {"failed": 0, "successful": 0}
    for match in _LOGINS.finditer(text):
        logins[match["result"]] += int(float(match["value"]))
    return NodeMetrics(segments, certificates, logins["failed"], logins["successful"])
