"""Produce (key 0), versions 3 to 13; versions 0 to 2 are advertised for old librdkafka but not served (KAFKA-18659).

- 3: record batches of magic 2, exactly one per partition, and the transactional id
- 5: answers carry the log's start offset
- 7: zstd
- 8: answers name the records at fault (KIP-467)
- 9: flexible
- 10: the answer names the leader if this broker is not the leader (KIP-951)
- 11: TRANSACTION_ABORTABLE
- 12: partitions are added to the transaction with its first batch for them (KIP-890)
- 13: topics are named by id (KIP-516)

With acks=0 there is no answer; as in Apache Kafka an error then closes the connection, the only sign a client can get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.apis.api import Api, Shortcut
from ottla.broker.apis.produce.handler import error_response, handle
from ottla.broker.apis.produce.shortcut import VERSION_MIN, append_usual_request
from ottla.broker.apis.produce.uncommitted import THROTTLE_POSITION
from ottla.broker.quotas.metering import Metering
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def _handle_in_slices(request: ProduceRequest, context: RequestContext, broker: Broker) -> Deferred[Any]:
    """Imports `sliced` with the first request of this size, because most nodes never get one."""
    from ottla.broker.apis.produce.sliced import handle_in_slices

    return handle_in_slices(request, context, broker)


API = Api(
    request=ProduceRequest,
    response=ProduceResponse,
    handle=handle,
    error_response=error_response,
    shortcut=Shortcut(min_version=VERSION_MIN, run=append_usual_request, throttle_position=THROTTLE_POSITION),
    handle_in_slices=_handle_in_slices,
    is_cut_by_elements=True,
    metering=Metering.TIME_AND_REQUEST_BYTES,
)
