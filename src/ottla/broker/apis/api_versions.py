"""ApiVersions (key 18), versions 0 to 5.

Lists the APIs and versions that the listener serves, and the features that the cluster has finalized.

- Version 0-2: the list alone, with a throttle time since version 1.
- Version 3 (KIP-511): the client names its software, which must look like a name and a version; supported and
  finalized features (KIP-584) are answered.
- Version 4: features whose lowest supported level is 0 are answered, too. Older clients stumble over a level of 0, so
  up to version 3 such features are left out.
- Version 5 (KIP-1242): the client may name the node that it means, by cluster id and node id together. A broker with
  other ids answers REBOOTSTRAP_REQUIRED, so that a misrouted client looks for its cluster again. As in Apache Kafka, a
  controller's listener does not compare the ids.
- Any other version is answered in version 0 with UNSUPPORTED_VERSION and the versions of this API alone, so that the
  client can ask again (`unsupported_version_response`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS, broker_handlers
from ottla.broker.apis.api import Api
from ottla.model.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]

API_VERSIONS_KEY = 18
_NAMES_NODE_SINCE = 5
_NO_NODE = -1

_ALPHANUMERIC = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_INNER = _ALPHANUMERIC | frozenset("-.")


def handle(request: ApiVersionsRequest, context: RequestContext, broker: Broker) -> ApiVersionsResponse:
    version = context.api_version
    if version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(_is_software_name(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name, context.connection.client_software_version = names
    if version >= _NAMES_NODE_SINCE and (code := _misrouted(request, context, broker)) is not None:
        return ApiVersionsResponse(error_code=code)
    image = broker.metadata.image
    receives_metrics = broker.config.ottla_client_metrics_enable
    is_controller = context.listener.is_controller
    handlers = CONTROLLER_HANDLERS if is_controller else broker_handlers(receives_metrics=receives_metrics)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api_key, min_version=spec.min_version, max_version=spec.max_version)
            for api_key, spec in sorted(handlers.items())
        ],
        supported_features=_supported_features(broker, version),
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(_finalized(broker))
        ],
    )


def unsupported_version_response() -> ApiVersionsResponse:
    """The response, in version 0, to a request of a version that is not served."""
    spec = HANDLERS[API_VERSIONS_KEY]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=API_VERSIONS_KEY, min_version=spec.min_version, max_version=spec.max_version)],
    )


def _misrouted(request: ApiVersionsRequest, context: RequestContext, broker: Broker) -> ErrorCode | None:
    """The error for a client that means another node. None for this node, and for a client that names none."""
    if (request.cluster_id is None) != (request.node_id == _NO_NODE):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None or context.listener.is_controller:
        return None
    is_meant = (request.cluster_id, request.node_id) == (broker.cluster_id, broker.node_id)
    return None if is_meant else ErrorCode.REBOOTSTRAP_REQUIRED


def _finalized(broker: Broker) -> list[tuple[str, int]]:
    levels = list(broker.metadata.image.features.finalized.items())
    # The level of kraft.version is in the records of the quorum and not in the metadata (KIP-853).
    return [*levels, ("kraft.version", broker.kraft_version())] if broker.kraft_version() > 0 else levels


def _supported_features(broker: Broker, version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(broker.supported_features.items())
        if lowest > 0 or version >= 4
    ]


def _is_software_name(text: str) -> bool:
    """Letters and digits, with `-` and `.` between them (KIP-511)."""
    return bool(text) and text[0] in _ALPHANUMERIC and text[-1] in _ALPHANUMERIC and _INNER.issuperset(text)


API = Api(
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    handle=handle,
    unsupported_version_response=unsupported_version_response,
)
