"""The network between the brokers of a `ReplicaCluster`: bytes that arrive in the scheduler's next turn, or never.

Requests and responses are packed and read as the brokers do it: fetches of the usual shape without messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.apis import fetch, list_offsets
from ottla.model.deferred import Deferred
from ottla.model.ports import FileRegion
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode, encode, encode_parts
from ottla.wire.message import Message
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.packed import PackedRequest, PackedResponse
from ottla.wire.peers import Endpoint, PeerUnreachable

if TYPE_CHECKING:
    from tests.support.replica_cluster import ReplicaCluster, ReplicaNode

__all__ = ["Network", "UnderWay"]

APIS = {FetchRequest.API_KEY: (fetch.API, 18), ListOffsetsRequest.API_KEY: (list_offsets.API, 10)}


class UnderWay:
    def __init__(self, cluster: ReplicaCluster, source: int, target: int, purpose: str) -> None:
        self.cluster = cluster
        self.source = source
        self.target = target
        self.purpose = purpose
        self.answer: Deferred[Any] = Deferred()
        cluster.under_way.append(self)

    def resolve(self, message: Any) -> None:
        if (self.target, self.source) in self.cluster.cut:
            self.fail("the answer was lost")
        if not self.answer.done:
            self.cluster.under_way.remove(self)
            self.answer.resolve(message)

    def fail(self, reason: str) -> None:
        if not self.answer.done:
            self.cluster.under_way.remove(self)
            self.answer.fail(PeerUnreachable(reason))


class Network:
    """The Peers port of a node."""

    def __init__(self, cluster: ReplicaCluster, source: ReplicaNode) -> None:
        self._cluster = cluster
        self._source = source

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Any]:
        cluster = self._cluster
        target = cluster.node_at(endpoint)
        target_id = -1 if target is None else target.node_id
        under_way = UnderWay(cluster, self._source.node_id, target_id, purpose)
        version = min(APIS[request.API_KEY][1], version_max)
        data = request.packed() if isinstance(request, PackedRequest) else encode(request, version)

        def deliver() -> None:
            if target is None or not target.runs or (self._source.node_id, target_id) in cluster.cut:
                under_way.fail(f"{endpoint} cannot be reached")
                return
            frame = memoryview(bytearray(data))
            received, _ = decode(API_SPECS[ApiKey(request.API_KEY)].request_class, frame, version)
            cluster.requests.append((self._source.node_id, target_id, received))
            answer = _answer(target, frame, received, version)
            if isinstance(answer, Deferred):
                answer.when_done(lambda done: self._respond(under_way, request, done.result(), version))
            else:
                self._respond(under_way, request, answer, version)

        cluster.later(deliver)
        cluster.virtual.scheduler.call_later(timeout_ms / 1000, under_way.fail, "no answer in time")
        return under_way.answer

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        target = self._cluster.node_at(endpoint)
        for under_way in list(self._cluster.under_way):
            if (
                under_way.source == self._source.node_id
                and under_way.purpose == purpose
                and (target is None or under_way.target == target.node_id)
            ):
                under_way.fail("disconnected")

    def _respond(self, under_way: UnderWay, request: Message, response: Message | PackedResponse, version: int) -> None:
        data = bytearray()
        for part in response.body if isinstance(response, PackedResponse) else encode_parts(response, version):
            assert not isinstance(part, int)
            data += part.read() if isinstance(part, FileRegion) else part
        frame = memoryview(self._cluster.on_response_bytes(data))
        read = request.read_response(frame, 0) if isinstance(request, PackedRequest) else None
        if read is None:
            read, _ = decode(API_SPECS[ApiKey(request.API_KEY)].response_class, frame, version)
        self._cluster.later(under_way.resolve, read)


def _answer(target: ReplicaNode, frame: memoryview, received: Message, version: int) -> Any:
    api = APIS[received.API_KEY][0]
    context = target.context(received.API_KEY, version)
    outcome = None if api.shortcut is None else api.shortcut.run(frame, 0, context, target.broker)
    if outcome is None:
        return api.handle(received, context, target.broker)
    assert not isinstance(outcome, bytes)
    request, handle = outcome
    return handle(request, context, target.broker)
