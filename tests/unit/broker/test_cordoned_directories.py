"""Changes of `cordoned.log.dirs` that Apache Kafka 4.3 refuses (KIP-1066, `ConfigurationControlManager`)."""

from __future__ import annotations

from ottla.broker.apis import alter_configs, incremental_alter_configs
from ottla.broker.authorization import AllowAll
from ottla.broker.context import ConnectionContext, ListenerInfo, RequestContext
from ottla.metadata.controller.decision import Decision
from ottla.model.errors import ErrorCode
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.metadata_records import FeatureLevelRecord
from tests.unit.broker.test_config_apis import BROKER, DELETE, SET, Node, node
from tests.unit.metadata.harness import ControllerHarness, done
from tests.unit.metadata.test_controller_configs import harness
from tests.unit.metadata.test_controller_configs import incremental as alter_in_controller

__all__ = ["harness", "node"]

KEY = "cordoned.log.dirs"


def test_no_directory_is_cordoned_before_brokers_report_it(harness: ControllerHarness) -> None:
    """Below 4.3-IV0 the controller does not learn of a cordoned directory, and would place replicas in it."""
    harness.add_broker(2)
    assert alter_in_controller(harness, BROKER, "2", (KEY, SET, "/d1")) == ErrorCode.NONE
    level = FeatureLevelRecord(name="metadata.version", feature_level=29)
    done(harness.controller.submit(lambda _context: Decision([level], None)))
    assert alter_in_controller(harness, BROKER, "2", (KEY, SET, "/d2")) == ErrorCode.INVALID_CONFIG
    assert alter_in_controller(harness, BROKER, "2", (KEY, DELETE, None)) == ErrorCode.INVALID_CONFIG
    assert harness.image.configs.of_broker(2) == {KEY: "/d1"}


def ask_controller(node: Node, value: str | None, *, is_forwarded: bool = False) -> list[ErrorCode]:
    """The answers of both APIs at the listener of a controller. Nothing is changed."""
    listener = ListenerInfo(
        name="CONTROLLER",
        security_protocol="PLAINTEXT",
        host="",
        port=1,
        advertised_host="",
        advertised_port=1,
        is_controller=True,
    )
    connection = ConnectionContext(listener=listener, client_host="::1", client_port=1, authorizer=AllowAll())
    connection.is_forwarded = is_forwarded
    context = RequestContext(0, 1, 1, "test", connection, 0)
    change = incremental.AlterableConfig(name=KEY, config_operation=DELETE if value is None else SET, value=value)
    single = incremental.AlterConfigsResource(resource_type=BROKER, resource_name="7", configs=[change])
    whole = legacy.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="7",
        configs=[] if value is None else [legacy.AlterableConfig(name=KEY, value=value)],
    )
    request = incremental.IncrementalAlterConfigsRequest(resources=[single], validate_only=True)
    older = legacy.AlterConfigsRequest(resources=[whole], validate_only=True)
    answers = [
        done(incremental_alter_configs.API.handle(request, context, node.broker)),
        done(alter_configs.API.handle(older, context, node.broker)),
    ]
    return [ErrorCode(answer.responses[0].error_code) for answer in answers]


def test_a_controller_only_removes_directories(node: Node) -> None:
    """It does not know the directories of a broker."""
    node.harness.add_broker(7)
    assert ask_controller(node, "/d1,/d2") == [ErrorCode.INVALID_CONFIG] * 2
    assert ask_controller(node, "/d1,/d2", is_forwarded=True) == [ErrorCode.NONE] * 2
    assert alter_in_controller(node.harness, BROKER, "7", (KEY, SET, "/d1,/d2")) == ErrorCode.NONE
    for value in (" /d2 ", "/d2, /d1", "", None):
        assert ask_controller(node, value) == [ErrorCode.NONE] * 2
    assert ask_controller(node, "/d2,/d3") == [ErrorCode.INVALID_CONFIG] * 2
