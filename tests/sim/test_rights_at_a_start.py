"""Authorization at a controller that has not caught up with the metadata: its own log may lack the newest ACLs.

The nodes are no super users, and `allow.everyone.if.no.acl.found` is set: without ACLs the cluster is open.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.context import ConnectionContext, Principal, RequestContext
from ottla.model.access import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.sim.cluster import ClusterLayout, SimCluster
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.node import SimNode
from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:root",
}
QUORUM = (
    ApiKey.FETCH,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH_SNAPSHOT,
)


class OpenCluster:
    """Three controllers, which are brokers as well. Only the test restarts them."""

    def __init__(self) -> None:
        self.kernel = Kernel(7)
        self.cluster = SimCluster(self.kernel, ClusterLayout(nodes=3, controllers=3, settings=SETTINGS))
        self.cluster.restart_seconds = (1e6, 1e6)
        self.nodes = self.cluster.nodes

    def run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(600):
            if condition():
                return
            self.kernel.run_until(self.kernel.now_us + SECOND_US // 10)
        pytest.fail("it did not happen within a minute of virtual time")

    def start(self) -> None:
        self.cluster.start()
        self.run_until(lambda: self.cluster.all_serve)

    def kill_all(self) -> None:
        for node in self.nodes.values():
            node.kill()
        self.kernel.run_until(self.kernel.now_us + SECOND_US)

    def format_all(self) -> None:
        self.cluster._format_controllers()

    def start_alone(self, node_id: int) -> SimNode:
        """The controller's listener of this node is open, and no other controller answers."""
        node = self.nodes[node_id]
        node.start()
        self.run_until(lambda: node.broker is not None)
        return node

    def deny(self, user: str, operation: Operation) -> None:
        creation = AclCreation(
            resource_type=ResourceType.CLUSTER,
            resource_name=CLUSTER_NAME,
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=Permission.DENY,
        )
        broker = self.nodes[1].broker
        assert broker is not None
        answers: list[CreateAclsResponse] = []
        response = broker.controller.ask(CreateAclsRequest(creations=[creation]))
        response.when_done(lambda done: answers.append(done.result()))
        self.run_until(lambda: bool(answers))
        assert [result.error_code for result in answers[0].results] == [ErrorCode.NONE]


def allows(node: SimNode, user: str, operation: Operation, api: ApiKey = ApiKey.INCREMENTAL_ALTER_CONFIGS) -> bool:
    broker = node.broker
    assert broker is not None
    connection = ConnectionContext(
        listener=broker.listeners["CONTROLLER"],
        client_host="10.0.9.1",
        client_port=1,
        principal=Principal("User", user),
        authorizer=broker.authorizer,
    )
    context = RequestContext(api, 0, 0, None, connection, 0)
    return context.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def is_postponed(
    node: SimNode, user: str, operation: Operation, api: ApiKey = ApiKey.INCREMENTAL_ALTER_CONFIGS
) -> bool:
    """True if the response asks the client to retry."""
    try:
        allows(node, user, operation, api)
    except KafkaError as error:
        return error.code == ErrorCode.NOT_CONTROLLER and error.code.retriable
    return False


def test_an_open_cluster_elects_a_controller_after_all_have_stopped() -> None:
    cluster = OpenCluster()
    cluster.start()
    cluster.kill_all()
    for node in cluster.nodes.values():
        node.start()
    cluster.run_until(lambda: cluster.cluster.all_serve)
    assert all(allows(node, "anyone", Operation.ALTER) for node in cluster.nodes.values())


def test_clients_wait_for_the_acls_that_a_new_disk_lacks() -> None:
    cluster = OpenCluster()
    cluster.format_all()
    alone = cluster.start_alone(3)
    assert is_postponed(alone, "mallory", Operation.ALTER)
    assert is_postponed(alone, "mallory", Operation.DESCRIBE_CONFIGS)
    assert allows(alone, "root", Operation.ALTER)
    # Levels of loggers, which a controller changes by itself.
    assert is_postponed(alone, "mallory", Operation.CLUSTER_ACTION)
    # Without elections there would be no leader to catch up with.
    assert all(allows(alone, "ANONYMOUS", Operation.CLUSTER_ACTION, api) for api in QUORUM)
    for node_id in (1, 2):
        cluster.nodes[node_id].start()
    cluster.run_until(lambda: cluster.cluster.all_serve)
    assert allows(alone, "mallory", Operation.ALTER)


def test_the_acls_of_the_own_log_hold_from_the_start() -> None:
    cluster = OpenCluster()
    cluster.start()
    cluster.deny("mallory", Operation.CLUSTER_ACTION)
    # The ACL must be in the log of the node that starts alone.
    last = cluster.nodes[3]
    cluster.run_until(lambda: not allows(last, "mallory", Operation.CLUSTER_ACTION))
    cluster.kill_all()
    alone = cluster.start_alone(3)
    assert all(is_postponed(alone, "mallory", Operation.CLUSTER_ACTION, api) for api in QUORUM)
    assert is_postponed(alone, "mallory", Operation.ALTER)
    assert all(allows(alone, "root", Operation.CLUSTER_ACTION, api) for api in QUORUM)
