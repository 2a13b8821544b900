"""RemoveRaftVoter (key 81), version 0: removes a controller from the voters of the quorum (KIP-853).

Only the leader of the quorum decides: a broker forwards the request to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.voter_changes import quorum_to_change
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: RemoveRaftVoterRequest, context: RequestContext, broker: Broker
) -> RemoveRaftVoterResponse | Deferred[RemoveRaftVoterResponse]:
    quorum = quorum_to_change(context, broker)
    if quorum is None:
        return broker.controller.ask(request, context.for_controller())
    return quorum.reconfiguration.remove_voter(request)


API = Api(request=RemoveRaftVoterRequest, response=RemoveRaftVoterResponse, handle=handle)
