"""The APIs that are advertised but refused: one table lists them with their versions and answers.

- SASL (keys 17, 36): no listener authenticates clients. The connection stays open.
- Share groups (76 to 79, 83 to 87, 90 to 92, KIP-932): the answers are those of a cluster whose `share.version` is 0.
  Such a cluster has no share coordinator, so the requests to the coordinator are answered with NOT_COORDINATOR.
- Streams groups (88, 89, 93, KIP-1071, KIP-1331): the answers are those of a cluster whose `streams.version` is 0.
- UnregisterController (94, KIP-1312): the answer is that of a cluster whose `metadata.version` is below 4.4-IV2.

An API that is implemented later gets its own module and loses its row. Importing this module imports no message module,
because the node needs the advertised versions when it starts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.model.access import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api import API_SPECS, ApiKey

if TYPE_CHECKING:
    from ottla.broker.apis.api import Api
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["ROWS", "RefusedApi"]

_NO_AUTHENTICATION = "This listener does not authenticate clients."
_NO_UNREGISTRATION = "Controllers can be unregistered from metadata.version 4.4-IV2 on, which is not supported yet."
_NO_SHARE_GROUPS = "Share groups are not switched on."


class RefusedApi(NamedTuple):
    """An API whose every request is answered with the same error."""

    api_key: int
    min_version: int
    max_version: int
    code: ErrorCode
    # Builds the error response.
    answer: Callable[[int, Any, KafkaError], Any]
    # The error message; None for the default message of the code.
    message: str | None = None
    # True for requests between brokers.
    is_cluster_action: bool = False

    def api(self) -> Api:
        from ottla.broker.apis.api import Api

        spec = API_SPECS[ApiKey(self.api_key)]
        return Api(
            request=spec.request_class,
            response=spec.response_class,
            handle=self.handle,
            error_response=self.error_response,
        )

    def handle(self, request: Any, context: RequestContext, broker: Broker) -> Any:  # noqa: ARG002
        error = KafkaError(self.code, self.message)
        if self.is_cluster_action and not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return self.error_response(request, context.api_version, error)

    def error_response(self, request: Any, version: int, error: KafkaError) -> Any:  # noqa: ARG002
        return self.answer(self.api_key, request, error)


def _code_alone(api_key: int, request: Any, error: KafkaError) -> Any:  # noqa: ARG001
    """The code at the top of an otherwise empty response."""
    return _response_class(api_key)(error_code=error.code)


def _code_and_message(api_key: int, request: Any, error: KafkaError) -> Any:  # noqa: ARG001
    return _response_class(api_key)(error_code=error.code, error_message=error.message)


def _generic(api_key: int, request: Any, error: KafkaError) -> Any:
    """The error in every field for it."""
    from ottla.broker.error_responses import generic_error_response

    return generic_error_response(api_key, request, error)


def _described_groups(api_key: int, request: Any, error: KafkaError) -> Any:
    group_class = _element(api_key, "DescribedGroup")
    groups = [group_class(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    return _response_class(api_key)(groups=groups)


def _share_group_offsets(api_key: int, request: Any, error: KafkaError) -> Any:
    group_class = _element(api_key, "DescribeShareGroupOffsetsResponseGroup")
    groups = [group_class(group_id=group.group_id, error_code=error.code) for group in request.groups]
    return _response_class(api_key)(groups=groups)


def _share_partitions(api_key: int, request: Any, error: KafkaError) -> Any:
    """Every partition of the request, with the error. Only the name of the class for a topic differs between APIs."""
    response_class = _response_class(api_key)
    ((_, kind, *_),) = [field for field in response_class.FIELDS if field[0] == "results"]
    topic_class, partition_class = _element(api_key, kind[1:-1]), _element(api_key, "PartitionResult")
    return response_class(
        results=[
            topic_class(
                topic_id=topic.topic_id,
                partitions=[
                    partition_class(partition=data.partition, error_code=error.code, error_message=error.message)
                    for data in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _response_class(api_key: int) -> Any:
    return API_SPECS[ApiKey(api_key)].response_class


def _element(api_key: int, name: str) -> Any:
    """The class of an array's elements, from the module of the response class."""
    return getattr(sys.modules[_response_class(api_key).__module__], name)


_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION

_TABLE = (
    # SaslHandshake, SaslAuthenticate. The latter does not send the client's own secret back.
    RefusedApi(17, 0, 1, ErrorCode.ILLEGAL_SASL_STATE, _generic),
    RefusedApi(36, 0, 2, ErrorCode.ILLEGAL_SASL_STATE, _code_and_message, _NO_AUTHENTICATION),
    # ShareGroupHeartbeat, ShareGroupDescribe, ShareFetch, ShareAcknowledge.
    RefusedApi(76, 1, 1, _UNSUPPORTED, _code_alone),
    RefusedApi(77, 1, 1, _UNSUPPORTED, _described_groups),
    RefusedApi(78, 1, 2, _UNSUPPORTED, _code_alone),
    RefusedApi(79, 1, 2, _UNSUPPORTED, _code_alone),
    # InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState,
    # ReadShareGroupStateSummary.
    RefusedApi(83, 0, 0, ErrorCode.NOT_COORDINATOR, _share_partitions, is_cluster_action=True),
    RefusedApi(84, 0, 0, ErrorCode.NOT_COORDINATOR, _share_partitions, is_cluster_action=True),
    RefusedApi(85, 0, 1, ErrorCode.NOT_COORDINATOR, _share_partitions, is_cluster_action=True),
    RefusedApi(86, 0, 0, ErrorCode.NOT_COORDINATOR, _share_partitions, is_cluster_action=True),
    RefusedApi(87, 0, 1, ErrorCode.NOT_COORDINATOR, _share_partitions, is_cluster_action=True),
    # StreamsGroupHeartbeat, StreamsGroupDescribe.
    RefusedApi(88, 0, 1, _UNSUPPORTED, _code_alone),
    RefusedApi(89, 0, 1, _UNSUPPORTED, _described_groups),
    # DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets.
    RefusedApi(90, 0, 1, _UNSUPPORTED, _share_group_offsets),
    RefusedApi(91, 0, 0, _UNSUPPORTED, _generic, _NO_SHARE_GROUPS),
    RefusedApi(92, 0, 0, _UNSUPPORTED, _generic, _NO_SHARE_GROUPS),
    # StreamsGroupTopologyDescriptionUpdate, UnregisterController.
    RefusedApi(93, 0, 0, _UNSUPPORTED, _code_alone),
    RefusedApi(94, 0, 0, _UNSUPPORTED, _code_and_message, _NO_UNREGISTRATION),
)

ROWS = {row.api_key: row for row in _TABLE}
