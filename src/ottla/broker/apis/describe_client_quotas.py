"""DescribeClientQuotas (key 48), versions 0 to 1: the quotas whose entities match a filter (KIP-546).

- 1: flexible

A filter lists entity types, each with a name, with the default, or with any name. A strict filter excludes entities
with other types. The answer comes from this node's image.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.metadata.image import CLIENT_ID, IP, USER, ClientQuotasImage, QuotaEntity
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]

_EXACT, _DEFAULT, _ANY = 0, 1, 2

# Apache Kafka keeps the quotas of an entity in a hash table and answers in its order, which changes when the fourth
# quota makes the table grow. Clients have tests that compare whole answers, so the order here is the same.
_KEYS_OF_SMALL_TABLE = ("consumer_byte_rate", "controller_mutation_rate", "request_percentage", "producer_byte_rate")
_KEYS_OF_LARGE_TABLE = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate", "request_percentage")
_KEYS_OF_SMALL_TABLE_MAX = 3


def handle(
    request: DescribeClientQuotasRequest, context: RequestContext, broker: Broker
) -> DescribeClientQuotasResponse | Deferred[DescribeClientQuotasResponse | PackedResponse]:
    if not context.allows(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None)
    _check(request.components)
    return answer_in_slices(_describe(broker.metadata.image.client_quotas, request), context, broker)


def _describe(
    quotas: ClientQuotasImage, request: DescribeClientQuotasRequest
) -> Generator[None, None, DescribeClientQuotasResponse]:
    entries: list[EntryData] = []
    for number, (entity, values) in enumerate(quotas.by_entity.items(), 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        if _matches(entity, request):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=values[key]) for key in _ordered_keys(values)],
                )
            )
    return DescribeClientQuotasResponse(entries=entries)


def _ordered_keys(values: Mapping[str, float]) -> list[str]:
    """Returns the keys in Apache Kafka's order; quotas without a place in it follow (an address has only one)."""
    order = _KEYS_OF_LARGE_TABLE if len(values) > _KEYS_OF_SMALL_TABLE_MAX else _KEYS_OF_SMALL_TABLE
    return [key for key in order if key in values] + [key for key in values if key not in order]


def error_response(
    request: DescribeClientQuotasRequest,  # noqa: ARG001
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def _check(components: list[ComponentData]) -> None:
    kinds: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("a component of the filter names no kind of entity")
        if kind in kinds:
            raise _invalid(f"the filter names {kind} more than once")
        kinds.add(kind)
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{kind!r} is no kind of entity that has quotas")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise _invalid(f"{component.match_type} is no way to match an entity")
        if (component.match is not None) != (component.match_type == _EXACT):
            raise _invalid(f"a name of a {kind} belongs to an exact match, and to no other")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("Invalid entity filter component combination: ip stands alone, without user and client-id")


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    names = dict(entity)
    return all(
        component.entity_type in names
        and (component.match_type == _ANY or names[component.entity_type] == component.match)
        for component in request.components
    )


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)


API = Api(
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    handle=handle,
    error_response=error_response,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
