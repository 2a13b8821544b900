"""The APIs about configuration, against a controller on a log in memory and answers Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.apis import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from ottla.broker.authorization import AllowAll
from ottla.broker.context import ConnectionContext, ListenerInfo, RequestContext
from ottla.broker.dynamic_config import DynamicConfig
from ottla.metadata.image import ResourceType
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.slices import Slices
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.virtual_world import VirtualWorld
from tests.unit.metadata.harness import ControllerHarness

FACTS = Path(__file__).resolve().parents[2] / "data" / "kafka-4.3-alter-configs.json"

TOPIC, BROKER, LOGGER, METRICS, GROUP = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)
SET, DELETE, APPEND, SUBTRACT = range(4)

# Keys that the peer accepts and this node refuses, and the name of a logger on both sides.
REFUSED_HERE = {"listener.name.external.ssl.keystore.password", "leader.replication.throttled.rate"}
LOGGERS = {"kafka.server.KafkaApis": "ottla.broker.test"}


class DenyAll(AllowAll):
    def authorize(self, *_arguments: Any) -> bool:
        return False


class Node:
    """Node 0 with one topic, and handlers called as dispatch calls them."""

    def __init__(self) -> None:
        self.harness = ControllerHarness(
            properties={"node.id": "0", "controller.quorum.voters": "0@127.0.0.1:9093", "num.io.threads": "8"}
        )
        self.harness.add_broker(0)
        self.harness.create("t")
        self.broker: Any = SimpleNamespace(
            config=self.harness.config,
            node_id=0,
            controller=self.harness.controller,
            local_controller=self.harness.controller,
            metadata=self.harness,
            config_checks=[],
            logs=SimpleNamespace(),
            replicas=SimpleNamespace(
                on_broker_config=lambda _config: None, slices=Slices(VirtualWorld().world.scheduler)
            ),
            on_config_changed=[],
        )
        self.dynamic = DynamicConfig(cast(Any, self.broker))
        self.dynamic.start(self.harness.image)
        self.is_denied = False

    def call(self, module: Any, request: Any, version: int = 1) -> Any:
        listener = ListenerInfo(
            name="PLAINTEXT", security_protocol="PLAINTEXT", host="", port=1, advertised_host="", advertised_port=1
        )
        connection = ConnectionContext(
            listener=listener, client_host="::1", client_port=1, authorizer=DenyAll() if self.is_denied else AllowAll()
        )
        answer = module.handle(request, RequestContext(0, version, 1, "test", connection, 0), self.broker)
        if isinstance(answer, Deferred):
            assert answer.done
            answer = answer.result()
        self.dynamic.start(self.harness.image)
        return answer

    def alter(self, *changes: tuple[int, str, int, str, str | None], validate_only: bool = False) -> list[str]:
        """One resource per change; the names of the error codes."""
        resources = [
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
            )
            for kind, name, operation, key, value in changes
        ]
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        answer = self.call(incremental_alter_configs, request)
        assert [(response.resource_type, response.resource_name) for response in answer.responses] == [
            (kind, name) for kind, name, *_ in changes
        ]
        assert all(bool(response.error_message) == bool(response.error_code) for response in answer.responses)
        return [ErrorCode(response.error_code).name for response in answer.responses]

    def describe(self, kind: int, name: str, keys: list[str] | None = None, **options: bool) -> Any:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        (result,) = self.call(describe_configs, DescribeConfigsRequest(resources=[resource], **options), 4).results
        assert (result.resource_type, result.resource_name) == (kind, name)
        return result

    def value(self, kind: int, name: str, key: str) -> Any:
        (entry,) = self.describe(kind, name, [key]).configs
        return entry.value


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("ottla.broker.test")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_every_change_is_answered_as_kafka_answers_it(node: Node) -> None:
    # In order: later changes build on earlier ones. The first two are how the peer's topic was created.
    node.alter((TOPIC, "t", SET, "segment.bytes", "2097152"))
    node.alter((TOPIC, "t", SET, "cleanup.policy", "compact,delete"))
    for kind, name, operation, key, value, validate_only, expected in json.loads(FACTS.read_text(encoding="utf-8")):
        if key in REFUSED_HERE:
            continue
        change = (kind, name, operation, LOGGERS.get(key, key), value)
        assert node.alter(change, validate_only=validate_only) == [expected], change


def test_a_change_is_seen_at_once(node: Node) -> None:
    node.alter((TOPIC, "t", SET, "retention.ms", "5"), (BROKER, "0", SET, "log.segment.bytes", "3000000"))
    assert node.value(TOPIC, "t", "retention.ms") == "5"
    assert node.value(TOPIC, "t", "segment.bytes") == "3000000"
    node.alter((TOPIC, "t", DELETE, "retention.ms", None))
    assert node.value(TOPIC, "t", "retention.ms") == "604800000"


def test_validating_changes_nothing(node: Node, logger: logging.Logger) -> None:
    node.alter((TOPIC, "t", SET, "retention.ms", "5"), (LOGGER, "0", SET, logger.name, "DEBUG"), validate_only=True)
    assert node.value(TOPIC, "t", "retention.ms") == "604800000"
    assert logger.level == logging.NOTSET


def test_each_resource_stands_for_itself_and_the_order_is_kept(node: Node, logger: logging.Logger) -> None:
    codes = node.alter(
        (LOGGER, "0", SET, logger.name, "LOUD"),
        (TOPIC, "t", SET, "retention.ms", "5"),
        (99, "?", SET, "a", "b"),
        (BROKER, "7", SET, "num.io.threads", "9"),
        (BROKER, "zero", SET, "num.io.threads", "9"),
        (TOPIC, "gone", SET, "retention.ms", "5"),
        (LOGGER, "7", SET, "root", "INFO"),
    )
    assert codes == [
        "INVALID_CONFIG",
        "NONE",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_REQUEST",
    ]
    assert node.value(TOPIC, "t", "retention.ms") == "5"


def test_a_resource_named_twice_is_not_changed_at_all(node: Node) -> None:
    change = (TOPIC, "t", SET, "retention.ms", "5")
    assert node.alter(change, change) == ["INVALID_REQUEST"] * 2
    assert node.value(TOPIC, "t", "retention.ms") == "604800000"


def test_loggers_change_until_they_are_deleted(node: Node, logger: logging.Logger) -> None:
    assert node.alter((LOGGER, "0", SET, logger.name, "DEBUG")) == ["NONE"]
    assert logger.level == logging.DEBUG
    assert node.value(LOGGER, "0", logger.name) == "DEBUG"
    assert node.alter((LOGGER, "0", DELETE, logger.name, None)) == ["NONE"]
    assert logger.level == logging.NOTSET


def test_no_logger_changes_when_one_of_them_cannot(node: Node, logger: logging.Logger) -> None:
    configs = [
        AlterableConfig(name=logger.name, config_operation=SET, value="DEBUG"),
        AlterableConfig(name="no.such.logger", config_operation=SET, value="DEBUG"),
    ]
    resource = AlterConfigsResource(resource_type=LOGGER, resource_name="0", configs=configs)
    answer = node.call(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert logger.level == logging.NOTSET


def test_the_older_request_replaces_the_whole_set(node: Node) -> None:
    node.alter((TOPIC, "t", SET, "retention.ms", "5"))
    resources = [
        legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[legacy.AlterableConfig(**config)])
        for kind, name, config in (
            (TOPIC, "t", {"name": "segment.bytes", "value": "2097152"}),
            (LOGGER, "0", {"name": "root", "value": "INFO"}),
            (BROKER, "9", {"name": "num.io.threads", "value": "9"}),
        )
    ]
    answer = node.call(alter_configs, legacy.AlterConfigsRequest(resources=resources))
    assert [ErrorCode(response.error_code).name for response in answer.responses] == [
        "NONE",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    assert node.value(TOPIC, "t", "segment.bytes") == "2097152"
    assert node.value(TOPIC, "t", "retention.ms") == "604800000"


def test_a_broker_checks_what_only_it_can_know(node: Node) -> None:
    # Node 7 is not the controller, which has another properties file.
    node.harness.add_broker(7)
    node.broker.node_id, node.broker.local_controller = 7, None
    node.broker.config = BrokerConfig.embedded({"node.id": "7", "controller.quorum.voters": "7@127.0.0.1:9093"})
    listeners = "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert node.alter((BROKER, "7", SET, "listeners", listeners)) == ["INVALID_REQUEST"]
    assert node.alter((BROKER, "7", SET, "num.io.threads", "1000")) == ["INVALID_REQUEST"]
    assert node.alter((BROKER, "7", SET, "cordoned.log.dirs", "/elsewhere")) == ["INVALID_REQUEST"]
    resource = legacy.AlterConfigsResource(
        resource_type=BROKER, resource_name="7", configs=[legacy.AlterableConfig(name="listeners", value=listeners)]
    )
    (answer,) = node.call(alter_configs, legacy.AlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert node.harness.image.configs.of_broker(7) == {}
    assert node.alter((BROKER, "7", SET, "num.io.threads", "9")) == ["NONE"]
    assert node.broker.config.num_io_threads == 9


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "gone", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "a b", "INVALID_TOPIC_EXCEPTION"),
        (TOPIC, "", "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "7", "INVALID_REQUEST"),
        (BROKER, "x", "INVALID_REQUEST"),
        (LOGGER, "", "INVALID_REQUEST"),
        (GROUP, "", "INVALID_REQUEST"),
        (METRICS, "", "INVALID_REQUEST"),
        (99, "x", "INVALID_REQUEST"),
    ],
)
def test_what_cannot_be_described_is_said(node: Node, kind: int, name: str, code: str) -> None:
    result = node.describe(kind, name)
    assert ErrorCode(result.error_code).name == code
    assert result.error_message
    assert result.configs == []


def test_an_unknown_type_of_resource_fails_the_whole_request(node: Node) -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name="t", configuration_keys=None) for kind in (TOPIC, 99)
    ]
    results = node.call(describe_configs, DescribeConfigsRequest(resources=resources), 4).results
    assert [(result.resource_type, result.error_code) for result in results] == [
        (TOPIC, ErrorCode.INVALID_REQUEST),
        (99, ErrorCode.INVALID_REQUEST),
    ]


def test_an_empty_list_of_keys_means_all(node: Node) -> None:
    everything = node.describe(TOPIC, "t").configs
    assert len(everything) == 33
    assert len(node.describe(TOPIC, "t", []).configs) == 33
    assert [config.name for config in node.describe(TOPIC, "t", ["segment.ms", "nope"]).configs] == ["segment.ms"]


def test_synonyms_and_documentation_come_when_asked_for(node: Node) -> None:
    (plain,) = node.describe(TOPIC, "t", ["segment.bytes"]).configs
    assert plain.synonyms == []
    assert plain.documentation is None
    (full,) = node.describe(TOPIC, "t", ["segment.bytes"], include_synonyms=True, include_documentation=True).configs
    assert [(synonym.name, synonym.value, synonym.source) for synonym in full.synonyms] == [
        ("log.segment.bytes", "1073741824", 5)
    ]
    assert full.documentation


def test_the_broker_itself_has_every_public_key(node: Node) -> None:
    names = {config.name for config in node.describe(BROKER, "0").configs}
    assert "log.segment.bytes" in names
    assert "unstable.api.versions.enable" not in names
    assert len(names) > 330


def test_cluster_defaults_show_only_what_is_set(node: Node) -> None:
    before = {config.name for config in node.describe(BROKER, "").configs}
    node.alter((BROKER, "", SET, "log.segment.bytes", "4000000"))
    assert {config.name for config in node.describe(BROKER, "").configs} - before == {"log.segment.bytes"}


def listed(node: Node, *types: int, version: int = 1) -> Any:
    return node.call(list_config_resources, ListConfigResourcesRequest(resource_types=list(types)), version)


def test_what_has_a_configuration_is_listed(node: Node) -> None:
    node.alter((GROUP, "g", SET, "consumer.session.timeout.ms", "50000"), (METRICS, "m", SET, "interval.ms", "1000"))
    everything = [
        (config_resource.resource_type, config_resource.resource_name)
        for config_resource in listed(node).config_resources
    ]
    assert sorted(everything) == [(TOPIC, "t"), (BROKER, "0"), (LOGGER, "0"), (METRICS, "m"), (GROUP, "g")]
    assert [config_resource.resource_name for config_resource in listed(node, GROUP, TOPIC).config_resources] == [
        "g",
        "t",
    ]
    assert [config_resource.resource_name for config_resource in listed(node, version=0).config_resources] == ["m"]


def test_an_unknown_type_cannot_be_listed(node: Node) -> None:
    assert listed(node, TOPIC, 99).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_who_may_not_is_told_so(node: Node) -> None:
    node.is_denied = True
    assert node.describe(TOPIC, "t").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert node.describe(GROUP, "g").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert node.describe(BROKER, "0").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert listed(node).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert node.alter((TOPIC, "t", SET, "retention.ms", "5"), (LOGGER, "0", SET, "root", "INFO")) == [
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
    ]
