"""AddRaftVoter (key 80), versions 0 and 1: adds a controller to the voters of the quorum (KIP-853).

- 1: the answer may come before the commit (KIP-1186)

Only the leader of the quorum decides: a broker forwards the request to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.voter_changes import quorum_to_change
from ottla.model.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: AddRaftVoterRequest, context: RequestContext, broker: Broker
) -> AddRaftVoterResponse | Deferred[AddRaftVoterResponse]:
    quorum = quorum_to_change(context, broker)
    if quorum is None:
        return broker.controller.ask(request, context.for_controller())
    return quorum.reconfiguration.add_voter(request)


API = Api(
    request=AddRaftVoterRequest,
    response=AddRaftVoterResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
