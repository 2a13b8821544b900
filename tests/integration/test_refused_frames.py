"""Frames that are not Kafka's protocol end the connection, with one log line: the sender, the frame and the reason.

A node logs at most five of these lines per second, so every test has its own node and causes at most five.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct

import pytest

import ottla.testing
from ottla.broker.apis import HANDLERS
from ottla.host.listener import REFUSAL_LINES_PER_SECOND
from tests.support.bystander import Bystander

REQUEST_BYTES_MAX = 100_000
# Header of version 1: API key, version, correlation id, no client id.
METADATA_1 = struct.pack(">hhih", 3, 1, 7, -1)
PRODUCE_9 = struct.pack(">hhihb", 0, 9, 7, -1, 0)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


NOT_OURS = {
    "a version that is too new": (
        framed(struct.pack(">hhih", 3, 99, 7, -1)),
        f"a Metadata request of version 99, where this broker speaks versions 0 to {HANDLERS[3].max_version}",
    ),
    "a version that is gone": (
        framed(struct.pack(">hhih", 0, 2, 7, -1)),
        f"a Produce request of version 2, where this broker speaks versions 3 to {HANDLERS[0].max_version}",
    ),
    "an API that does not exist": (
        framed(struct.pack(">hhih", 9999, 0, 7, -1)),
        "a request of API key 9999, which this listener does not serve",
    ),
    "an API of other listeners": (
        # Vote, which only controllers serve.
        framed(struct.pack(">hhih", 52, 0, 7, -1)),
        "a request of API key 52, which this listener does not serve",
    ),
}
OTHER_PROTOCOLS = {
    "HTTP": (
        b"GET / HTTP/1.1\r\n\r\n",
        f"a request of 1195725856 bytes is larger than socket.request.max.bytes ({REQUEST_BYTES_MAX}); "
        "the client seems to speak HTTP",
    ),
    "TLS": (
        bytes.fromhex("16030102000100"),
        "the client speaks TLS, but this listener does not (security.protocol of the client)",
    ),
}
DAMAGED = {
    "a body that ends too early": (
        framed(METADATA_1 + struct.pack(">i", 1)),
        "a malformed Metadata version 1 request: ",
    ),
    "a length that promises more than there is": (
        framed(METADATA_1 + struct.pack(">ih", 2**31 - 1, 5) + b"topic"),
        "a malformed Metadata version 1 request: ",
    ),
    "a produce that ends too early": (framed(PRODUCE_9 + b"\x00"), "a malformed Produce version 9 request: "),
    "a frame of less than nothing": (struct.pack(">i", -1), "a request cannot have a size of -1 bytes"),
    "a frame that is too large": (
        struct.pack(">i", REQUEST_BYTES_MAX + 1) + b"x" * 100,
        f"a request of {REQUEST_BYTES_MAX + 1} bytes is larger than socket.request.max.bytes ({REQUEST_BYTES_MAX})",
    ),
}
BROKEN_HEADERS = {
    "no client id": (framed(METADATA_1[:8]), "a malformed Metadata version 1 request: the request header ends early"),
    "no tagged fields": (
        framed(struct.pack(">hhih", 3, 12, 7, -1)),
        "a malformed Metadata version 12 request: the request header ends early",
    ),
    "tagged fields that are not there": (
        framed(struct.pack(">hhihb", 3, 12, 7, -1, 4)),
        "a malformed Metadata version 12 request: the request header ends early",
    ),
    "a client id beyond the frame": (
        framed(struct.pack(">hhih", 18, 0, 7, 500)),
        "a malformed ApiVersions version 0 request: client_id is longer than the frame",
    ),
    "nothing at all": (struct.pack(">i", 0), "a request cannot have a size of 0 bytes"),
}


def refused(bootstrap: str, data: bytes) -> str:
    """Sends, waits until the node has closed the connection without an answer, and returns the client's address."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connected:
        address = "{}:{}".format(*connected.getsockname())
        connected.sendall(data)
        # The connection is reset if the node closed it before it had read everything.
        with contextlib.suppress(ConnectionResetError):
            assert connected.recv(1) == b"", "it was answered"
    return address


@pytest.mark.parametrize(
    "cases", [NOT_OURS, OTHER_PROTOCOLS, BROKEN_HEADERS, DAMAGED], ids=["not-ours", "protocols", "headers", "bodies"]
)
def test_a_refused_frame_costs_its_connection_and_one_line(cases: dict[str, tuple[bytes, str]]) -> None:
    assert len(cases) <= REFUSAL_LINES_PER_SECOND
    settings = {"socket.request.max.bytes": str(REQUEST_BYTES_MAX)}
    with ottla.testing.cluster(settings=settings) as cluster, Bystander(cluster.bootstrap) as bystander:
        node = cluster.node(1)
        for data, sentence in cases.values():
            bystander.asks()
            before = node.output
            address = refused(cluster.bootstrap, data)
            bystander.asks()
            (line,) = node.output.removeprefix(before).splitlines()
            _, _, level, logger, message = line.split(" ", 4)
            assert (level, logger) == ("WARN", "ottla.host.listener")
            connection, why = re.fullmatch(r"closed the connection (\S+): (.+)", message).groups()  # type: ignore[union-attr]
            assert connection.startswith(f"{cluster.bootstrap}-{address}-")
            assert why.startswith(sentence)
            # A sentence that ends with a colon is followed by the decoder's own message.
            assert sentence.endswith(": ") == (why != sentence)


def test_an_unknown_version_of_api_versions_is_answered_and_costs_nothing() -> None:
    with ottla.testing.cluster() as cluster, Bystander(cluster.bootstrap) as bystander:
        bystander.asks()
        before = cluster.node(1).output
        host, _, port = cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connected:
            for correlation_id in (7, 8):
                connected.sendall(framed(struct.pack(">hhih", 18, 99, correlation_id, -1)))
                size, answered, error = struct.unpack(">iih", connected.recv(10, socket.MSG_WAITALL))
                assert (answered, error) == (correlation_id, 35)
                connected.recv(size - 6, socket.MSG_WAITALL)
        bystander.asks()
        assert cluster.node(1).output == before
