"""The requests that the controller decides: one function per API key, in the modules by kind of record.

The quorum's own requests (AddRaftVoter, RemoveRaftVoter, DescribeQuorum and so on) are not here: they change no
metadata, and the quorum's leader answers them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.metadata.controller import (
    brokers,
    cluster,
    configs,
    directories,
    elections,
    features,
    partitions,
    producer_ids,
    reassignments,
    topics,
)
from ottla.wire.api import ApiKey

if TYPE_CHECKING:
    from ottla.metadata.controller.decision import Decision, DecisionContext
    from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

__all__ = ["DECISIONS"]


# The next ones import their module with the first such request, because most clusters have neither quotas nor ACLs nor
# credentials nor tokens.


def _decide_alter_client_quotas(
    request: AlterClientQuotasRequest, context: DecisionContext
) -> Decision[AlterClientQuotasResponse]:
    from ottla.metadata.controller.client_quotas import decide_alter_client_quotas

    return decide_alter_client_quotas(request, context)


def _decide_alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: DecisionContext
) -> Decision[AlterUserScramCredentialsResponse]:
    from ottla.metadata.controller.scram import decide_alter_user_scram_credentials

    return decide_alter_user_scram_credentials(request, context)


def _decide_create_acls(request: CreateAclsRequest, context: DecisionContext) -> Decision[CreateAclsResponse]:
    from ottla.metadata.controller.acls import decide_create_acls

    return decide_create_acls(request, context)


def _decide_delete_acls(request: DeleteAclsRequest, context: DecisionContext) -> Decision[DeleteAclsResponse]:
    from ottla.metadata.controller.acls import decide_delete_acls

    return decide_delete_acls(request, context)


def _decide_create_delegation_token(
    request: CreateDelegationTokenRequest, context: DecisionContext
) -> Decision[CreateDelegationTokenResponse]:
    from ottla.metadata.controller.tokens import decide_create_delegation_token

    return decide_create_delegation_token(request, context)


def _decide_renew_delegation_token(
    request: RenewDelegationTokenRequest, context: DecisionContext
) -> Decision[RenewDelegationTokenResponse]:
    from ottla.metadata.controller.tokens import decide_renew_delegation_token

    return decide_renew_delegation_token(request, context)


def _decide_expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: DecisionContext
) -> Decision[ExpireDelegationTokenResponse]:
    from ottla.metadata.controller.tokens import decide_expire_delegation_token

    return decide_expire_delegation_token(request, context)


# A function takes the request of its API and returns a decision with the response of its API; a test compares their
# annotations with the API's classes.
DECISIONS: Mapping[int, Callable[[Any, DecisionContext], Decision[Any]]] = {
    ApiKey.CREATE_TOPICS: topics.decide_create_topics,
    ApiKey.DELETE_TOPICS: topics.decide_delete_topics,
    ApiKey.CREATE_PARTITIONS: topics.decide_create_partitions,
    ApiKey.ALTER_PARTITION: partitions.decide_alter_partition,
    ApiKey.ELECT_LEADERS: elections.decide_elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.decide_alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.decide_list_partition_reassignments,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: directories.decide_assign_replicas_to_dirs,
    ApiKey.BROKER_REGISTRATION: brokers.decide_register_broker,
    ApiKey.BROKER_HEARTBEAT: brokers.decide_broker_heartbeat,
    ApiKey.UNREGISTER_BROKER: brokers.decide_unregister_broker,
    ApiKey.CONTROLLER_REGISTRATION: cluster.decide_register_controller,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.decide_incremental_alter_configs,
    ApiKey.ALTER_CONFIGS: configs.decide_alter_configs,
    ApiKey.ALTER_CLIENT_QUOTAS: _decide_alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _decide_alter_user_scram_credentials,
    ApiKey.CREATE_DELEGATION_TOKEN: _decide_create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _decide_renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _decide_expire_delegation_token,
    ApiKey.CREATE_ACLS: _decide_create_acls,
    ApiKey.DELETE_ACLS: _decide_delete_acls,
    ApiKey.UPDATE_FEATURES: features.decide_update_features,
    ApiKey.ALLOCATE_PRODUCER_IDS: producer_ids.decide_allocate_producer_ids,
}
