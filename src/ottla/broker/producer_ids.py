"""Producer ids for the clients of this broker, in blocks from the controller (KIP-730).

The next block is requested before the present one is used up, so that clients wait for the controller only if they ask
faster than blocks arrive. An id is issued once. The rest of a block is lost on a restart.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.metadata.controller import ControllerGateway
    from ottla.metadata.publishers import Publishers

__all__ = ["ProducerIds"]

# The next block is requested when this many ids are left: a tenth of a block.
_REFILL_BELOW = 100
# The number of clients that may wait for a block. Further clients get a retriable error.
_WAITING_MAX = 10_000


class ProducerIds:
    __slots__ = ("_asking", "_controller", "_end", "_metadata", "_next", "_node_id", "_reserve", "_waiting")

    def __init__(self, controller: ControllerGateway, metadata: Publishers, node_id: int) -> None:
        self._controller = controller
        self._metadata = metadata
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._reserve: tuple[int, int] | None = None
        self._asking = False
        self._waiting: deque[Deferred[int]] = deque()

    def next_id(self) -> Deferred[int]:
        if self._next == self._end and self._reserve is not None:
            (self._next, self._end), self._reserve = self._reserve, None
        if self._next < self._end:
            producer_id = self._next
            self._next += 1
            if self._end - self._next < _REFILL_BELOW and self._reserve is None:
                self._ask()
            return Deferred.resolved(producer_id)
        if len(self._waiting) >= _WAITING_MAX:
            return Deferred.failed(
                KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "too many clients wait for a producer id")
            )
        result: Deferred[int] = Deferred()
        self._waiting.append(result)
        self._ask()
        return result

    def _ask(self) -> None:
        if self._asking:
            return
        broker = self._metadata.image.brokers.get(self._node_id)
        if broker is None:
            self._fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the broker is not registered yet"))
            return
        self._asking = True
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=broker.broker_epoch)
        self._controller.ask(request).when_done(self._on_block)

    def _on_block(self, outcome: Deferred[AllocateProducerIdsResponse]) -> None:
        self._asking = False
        if outcome.error is not None:
            # After any error of the controller the client may retry (KIP-730).
            self._fail(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids yet: {outcome.error}"))
            return
        block = outcome.result()
        self._reserve = (block.producer_id_start, block.producer_id_start + block.producer_id_len)
        waiting, self._waiting = self._waiting, deque()
        for deferred in waiting:
            self.next_id().pass_to(deferred)

    def _fail(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, deque()
        for deferred in waiting:
            deferred.fail(error)
