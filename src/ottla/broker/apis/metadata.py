"""Metadata (key 3), versions 0 to 13: brokers, topics, and the leaders of partitions.

- 0: an empty list means all topics; unreachable replicas are left out with REPLICA_NOT_AVAILABLE
- 1: null means all topics, an empty list none; controller, rack, internal topics; 2: cluster id
- 4: whether topics may be created automatically; 5: offline replicas
- 6: a leader without this listener is LISTENER_NOT_FOUND rather than LEADER_NOT_AVAILABLE
- 7: leader epochs; 8: authorized operations (of the cluster until 10); 9: flexible
- 10: topic ids in the answer; 12: topics asked for by id; 13: an error for the request as a whole

The request that creates a topic automatically is answered with UNKNOWN_TOPIC_OR_PARTITION; the client asks again, as
with Apache Kafka. Any live broker is answered as the controller, since every broker takes administrative requests.

An answer with thousands of partitions is built and encoded in several turns of the loop, all of it from one image.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Generator
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.cluster_view import (
    alive_brokers,
    any_alive_broker,
    missing_topic_code,
)
from ottla.broker.context import RequestContext
from ottla.broker.internal_topics import automatic_topic
from ottla.broker.topic_answers import PARTITIONS_PER_STEP
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import is_internal
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.metadata.image import TopicImage
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]

logger = logging.getLogger("ottla.broker.metadata")

CREATE_TOPICS_VERSION = 7
TOPICS_IN_CREATION_MAX = 10_000
# An answer with more topics is made in portions.
ALL_TOPICS_PER_TURN = 500


def handle(
    request: MetadataRequest, context: RequestContext, broker: Broker
) -> MetadataResponse | Deferred[MetadataResponse | PackedResponse]:
    _check_request(request, context.api_version)
    if _wants_all(request, context) and len(broker.metadata.image.topics.by_name) > ALL_TOPICS_PER_TURN:
        return _answer_all(request, context, broker)
    steps = _response(request, context, broker)
    try:
        next(steps)
    except StopIteration as end:
        response: MetadataResponse = end.value
        return response
    from ottla.broker.long_answers import answer_in_slices

    return answer_in_slices(steps, context, broker)


def handle_portion(request: MetadataRequest, context: RequestContext, broker: Broker) -> Deferred[MetadataResponse]:
    """Some of the topics of a long request, whose answers are encoded together."""
    _check_request(request, context.api_version)
    return broker.replicas.slices.start(_response(request, context, broker))


def _wants_all(request: MetadataRequest, context: RequestContext) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _response(
    request: MetadataRequest, context: RequestContext, broker: Broker
) -> Generator[None, None, MetadataResponse]:
    version = context.api_version
    image = broker.metadata.image
    listener = context.listener_name
    alive = alive_brokers(image, listener)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.broker_id,
                host=node.endpoints[listener].host,
                port=node.endpoints[listener].port,
                rack=node.rack,
            )
            for node in alive
        ],
        cluster_id=broker.cluster_id,
        controller_id=any_alive_broker(alive, broker.world.random),
    )
    if _wants_all(request, context):
        topics: list[TopicImage | MetadataResponseTopic] = [
            image.topics.by_name[name]
            for name in sorted(image.topics.by_name)
            if context.would_allow(Operation.DESCRIBE, ResourceType.TOPIC, name)
        ]
    else:
        topics = _named_topics(request, context, broker, image)
    response.topics = yield from _topic_answers(topics, image, context, broker)
    if request.include_topic_authorized_operations and version >= 8:
        response.topics = [_with_operations(topic, context) for topic in response.topics]
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        response.cluster_authorized_operations = 0
        if context.would_allow(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            response.cluster_authorized_operations = context.authorizer.authorized_operations(
                context, ResourceType.CLUSTER, CLUSTER_NAME
            )
    return response


def _answer_all(
    request: MetadataRequest, context: RequestContext, broker: Broker
) -> Deferred[MetadataResponse | PackedResponse]:
    """All topics by their names, in portions. A topic that is deleted meanwhile is answered as unknown."""
    from ottla.broker.portions import handle_in_portions

    named = copy.copy(request)
    named.allow_auto_topic_creation = False
    named.topics = [
        MetadataRequestTopic(name=name)
        for name in sorted(broker.metadata.image.topics.by_name)
        if context.would_allow(Operation.DESCRIBE, ResourceType.TOPIC, name)
    ]
    if not named.topics:
        # In version 0 the empty list would mean all topics again.
        from ottla.broker.long_answers import answer_in_slices

        return answer_in_slices(_response(request, context, broker), context, broker)
    return handle_in_portions(API, named, context, broker)


def _with_operations(topic: MetadataResponseTopic, context: RequestContext) -> MetadataResponseTopic:
    """A copy of the topic's answer with the client's authorized operations. The original is shared between clients."""
    if topic.name is None or topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return topic
    own = copy.copy(topic)
    own.topic_authorized_operations = context.authorizer.authorized_operations(context, ResourceType.TOPIC, topic.name)
    return own


def error_response(request: MetadataRequest, version: int, error: KafkaError) -> MetadataResponse:  # noqa: ARG001
    """Every topic of the request gets the code: before version 13 the response has no code of its own."""
    topics = [
        MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error.code)


def _check_request(request: MetadataRequest, version: int) -> None:
    for topic in request.topics or ():
        if version < 12 and (topic.name is None or topic.topic_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"topics cannot be asked for by id in version {version} of Metadata"
            )
        if topic.name is None and not topic.topic_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is asked for that has neither name nor id")


def _topic_answers(
    topics: list[TopicImage | MetadataResponseTopic], image: MetadataImage, context: RequestContext, broker: Broker
) -> Generator[None, None, list[MetadataResponseTopic]]:
    answers: list[MetadataResponseTopic] = []
    since_pause = 0
    for topic in topics:
        if isinstance(topic, MetadataResponseTopic):
            answers.append(topic)
            continue
        answer = yield from broker.topic_answers.steps(topic, image, context.listener_name, context.api_version)
        answers.append(answer)
        since_pause += len(answer.partitions)
        if since_pause >= PARTITIONS_PER_STEP and topic is not topics[-1]:
            since_pause = 0
            yield
    return answers


def _named_topics(
    request: MetadataRequest, context: RequestContext, broker: Broker, image: MetadataImage
) -> list[TopicImage | MetadataResponseTopic]:
    """The topics, or the answers for those that cannot be described."""
    requested = request.topics or []
    identities = list(dict.fromkeys(topic.topic_id for topic in requested if topic.topic_id))
    if identities:
        return [_by_id(identity, context, image) for identity in identities]
    names = list(dict.fromkeys(topic.name for topic in requested if topic.name is not None))
    may_create = broker.config.auto_create_topics_enable and request.allow_auto_topic_creation
    answers: list[TopicImage | MetadataResponseTopic] = []
    to_create: list[str] = []
    for name in names:
        topic = image.topics.by_name.get(name)
        if not context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            # As in Apache Kafka, a denied topic is not marked internal, even under the name of an internal topic.
            answers.append(MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
        elif topic is not None:
            answers.append(topic)
        elif may_create and not _may_create(name, context):
            answers.append(_error(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            code = missing_topic_code(name)
            if may_create and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                to_create.append(name)
            answers.append(_error(name, code))
    if to_create:
        _create(to_create, context, broker)
    return answers


def _by_id(topic_id: Uuid, context: RequestContext, image: MetadataImage) -> TopicImage | MetadataResponseTopic:
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        # The id reveals nothing to a client that may not describe the topic; the name would.
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return topic


def _error(name: str, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _may_create(name: str, context: RequestContext) -> bool:
    return context.would_allow(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or context.allows(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _create(names: list[str], context: RequestContext, broker: Broker) -> None:
    """Asks the controller to create topics and does not wait: the client asks for the metadata again.

    A topic whose creation is pending is not asked for again. Clients repeat the request often, and a request to a
    controller that cannot be reached stays pending for long.
    """
    under_way = broker.topics_in_creation
    names = [name for name in names if name not in under_way][: TOPICS_IN_CREATION_MAX - len(under_way)]
    if not names:
        return
    under_way.update(names)
    topics = [automatic_topic(name, broker.config) for name in names]
    mutations = context.mutations(strict_since=0)
    on_behalf = context.for_controller(mutations=mutations)._replace(api_version=CREATE_TOPICS_VERSION)
    created = broker.controller.ask(CreateTopicsRequest(topics=topics), on_behalf)
    created.when_done(lambda _: under_way.difference_update(names))
    created.when_done(_log_failures)


def _log_failures(outcome: Deferred[CreateTopicsResponse]) -> None:
    if outcome.error is not None:
        logger.warning("topics could not be created automatically: %s", outcome.error)
        return
    failed = [
        result
        for result in outcome.result().topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    ]
    if failed:
        suffix = f" (and {len(failed) - 1} others)" if len(failed) > 1 else ""
        name, message = failed[0].name, failed[0].error_message
        logger.warning("topic %r%s could not be created automatically: %s", name, suffix, message)


API = Api(
    request=MetadataRequest,
    response=MetadataResponse,
    handle=handle,
    handle_portion=handle_portion,
    error_response=error_response,
    portions=(Portions(request=("topics",), response=("topics",), size=200),),
)
