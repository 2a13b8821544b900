"""Authorization and routing of changes to the quorum's voters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import add_raft_voter, remove_raft_voter
from ottla.model.errors import ErrorCode, KafkaError


class Machine:
    """A local quorum, or a connection to the leader: records its calls."""

    def __init__(self, name: str, *, is_leading: bool = True) -> None:
        self.name = name
        self.is_leading = is_leading
        self.reconfiguration = self

    def __getattr__(self, method: str) -> Any:
        return lambda *_: (self.name, method)


def handled(api: Any, *, quorum: Machine | None, is_controller: bool = False, is_allowed: bool = True) -> Any:
    context: Any = SimpleNamespace(
        allows=lambda *_: is_allowed,
        listener=SimpleNamespace(is_controller=is_controller),
        for_controller=lambda: None,
    )
    broker: Any = SimpleNamespace(quorum=quorum, controller=Machine("controller"))
    return api.handle(None, context, broker)


@pytest.mark.parametrize(
    ("api", "verb"),
    [(add_raft_voter, "add_voter"), (remove_raft_voter, "remove_voter")],
)
def test_the_leader_of_the_quorum_decides_if_the_client_may(api: Any, verb: str) -> None:
    leader, follower = Machine("quorum"), Machine("quorum", is_leading=False)
    sent_on = ("controller", "ask")
    assert handled(api, quorum=leader) == ("quorum", verb)
    assert handled(api, quorum=follower) == sent_on
    assert handled(api, quorum=None) == sent_on
    assert handled(api, quorum=follower, is_controller=True) == ("quorum", verb), "it says itself that it does not lead"
    with pytest.raises(KafkaError) as caught:
        handled(api, quorum=leader, is_allowed=False)
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
