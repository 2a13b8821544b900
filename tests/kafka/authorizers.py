"""What the authorizers of Kafka's tests do, for `authorizer.class.name` of our node."""

from __future__ import annotations

from ottla.broker.authorization import AllowAll, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.config import BrokerConfig

__all__ = ["DenyAlterScram"]

ALTER_USER_SCRAM_CREDENTIALS = 51


class DenyAlterScram(AllowAll):
    """Allows everything but AlterUserScramCredentials of `User:Unauthorized`."""

    def __init__(self, config: BrokerConfig) -> None:
        del config

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        is_alter = context.api_key == ALTER_USER_SCRAM_CREDENTIALS
        return not (is_alter and context.connection.principal.name == "Unauthorized")
