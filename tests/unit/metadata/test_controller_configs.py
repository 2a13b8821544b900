"""Configurations, features and producer ids through the controller."""

from __future__ import annotations

import pytest

from ottla.metadata.controller import ControllerContext
from ottla.metadata.controller.configs import AlterOperation
from ottla.metadata.controller.decision import KraftVersion
from ottla.metadata.controller.features import UpgradeType
from ottla.metadata.image import ResourceType
from ottla.metadata.versions import supported_features
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.quorum.errors import NotLeaderError
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.broker_registration import Feature
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.unit.metadata.harness import ControllerHarness, done, registration

SET, DELETE, APPEND, SUBTRACT = AlterOperation


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.create("t")
    return harness


def incremental(
    harness: ControllerHarness, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> ErrorCode:
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    answer = done(harness.controller.ask(request)).responses[0]
    assert (answer.error_message is None) == (answer.error_code == 0)
    return ErrorCode(answer.error_code)


def legacy(harness: ControllerHarness, kind: int, name: str, values: dict[str, str | None]) -> ErrorCode:
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in values.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = alter_configs.AlterConfigsRequest(resources=[resource])
    return ErrorCode(done(harness.controller.ask(request)).responses[0].error_code)


def test_single_keys_are_set_and_deleted(harness: ControllerHarness) -> None:
    assert incremental(harness, 2, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == ErrorCode.NONE
    assert incremental(harness, 2, "t", ("retention.ms", DELETE, None)) == ErrorCode.NONE
    assert harness.image.configs.of_topic("t") == {"segment.ms": "6"}
    assert incremental(harness, 2, "t", ("segment.ms", DELETE, None)) == ErrorCode.NONE
    assert (2, "t") not in harness.image.configs.by_resource


def test_lists_are_added_to_and_taken_from(harness: ControllerHarness) -> None:
    assert incremental(harness, 2, "t", ("cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert harness.image.configs.of_topic("t") == {"cleanup.policy": "delete,compact"}
    assert incremental(harness, 2, "t", ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert harness.image.configs.of_topic("t") == {"cleanup.policy": "compact"}
    assert incremental(harness, 2, "t", ("retention.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG


def test_the_older_request_replaces_everything(harness: ControllerHarness) -> None:
    assert legacy(harness, 2, "t", {"retention.ms": "5", "segment.ms": "6"}) == ErrorCode.NONE
    assert legacy(harness, 2, "t", {"segment.ms": "7"}) == ErrorCode.NONE
    assert harness.image.configs.of_topic("t") == {"segment.ms": "7"}
    assert legacy(harness, 2, "t", {"segment.ms": None}) == ErrorCode.INVALID_REQUEST


def test_validate_only_writes_nothing(harness: ControllerHarness) -> None:
    offset = harness.image.offset
    assert incremental(harness, 2, "t", ("retention.ms", SET, "5"), validate_only=True) == ErrorCode.NONE
    assert harness.image.offset == offset


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (ResourceType.TOPIC, "t", ("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
        (ResourceType.TOPIC, "t", ("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (ResourceType.TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (ResourceType.TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (ResourceType.TOPIC, "nowhere", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "a/b", ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "9", ("log.cleaner.threads", SET, "2"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ResourceType.BROKER, "one", ("log.cleaner.threads", SET, "2"), ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "", ("node.id", SET, "2"), ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "", ("log.cleaner.threads", SET, "many"), ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ("no.such.key", SET, "1"), ErrorCode.INVALID_CONFIG),
        (ResourceType.CLIENT_METRICS, "m", ("interval.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ("x", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (77, "x", ("x", SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_with_a_change_is_said(
    harness: ControllerHarness, kind: int, name: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    offset = harness.image.offset
    assert incremental(harness, kind, name, change) == code
    assert harness.image.offset == offset


def test_one_resource_given_twice_is_refused(harness: ControllerHarness) -> None:
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1")
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource, resource])
    answers = done(harness.controller.ask(request)).responses
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (ResourceType.BROKER, "", "log.cleaner.threads", "2"),
        (ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
        (ResourceType.GROUP, "g", "consumer.session.timeout.ms", "50000"),
        (ResourceType.CLIENT_METRICS, "m", "interval.ms", "1000"),
    ],
)
def test_other_resources_have_configurations_too(
    harness: ControllerHarness, kind: ResourceType, name: str, key: str, value: str
) -> None:
    assert incremental(harness, kind, name, (key, SET, value)) == ErrorCode.NONE
    assert harness.image.configs.of(kind, name)[key] == value


def test_a_default_set_for_all_brokers_is_seen_by_the_next_decision(harness: ControllerHarness) -> None:
    assert incremental(harness, ResourceType.BROKER, "", ("log.retention.ms", SET, "4242")) == ErrorCode.NONE
    shown = {config.name: config for config in harness.create("later").configs}["retention.ms"]
    assert (shown.value, shown.config_source) == ("4242", 3)


def test_an_equal_broker_value_is_written_again(harness: ControllerHarness) -> None:
    incremental(harness, ResourceType.BROKER, "1", ("log.cleaner.threads", SET, "2"))
    offset = harness.image.offset
    incremental(harness, ResourceType.BROKER, "1", ("log.cleaner.threads", SET, "2"))
    assert harness.image.offset == offset + 1
    incremental(harness, ResourceType.TOPIC, "t", ("retention.ms", SET, "2"))
    offset = harness.image.offset
    incremental(harness, ResourceType.TOPIC, "t", ("retention.ms", SET, "2"))
    assert harness.image.offset == offset


def update(
    harness: ControllerHarness, name: str, level: int, kind: int = UpgradeType.UPGRADE, *, version: int = 1
) -> UpdateFeaturesResponse:
    update_ = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update_])
    return done(harness.controller.ask(request, ControllerContext(api_version=version)))


class Quorum:
    """A quorum with `kraft.version` 0 that can go to 1."""

    def __init__(self) -> None:
        self.level = 0
        self.calls: list[tuple[int, bool]] = []
        self.upgraded: Deferred[None] = Deferred.resolved(None)

    def upgrade(self, level: int, *, validate_only: bool) -> Deferred[None]:
        self.calls.append((level, validate_only))
        if level > 1:
            return Deferred.failed(KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "there is no such level"))
        return Deferred.resolved(None) if validate_only else self.upgraded


@pytest.fixture
def quorum(harness: ControllerHarness) -> Quorum:
    quorum = Quorum()
    harness.controller.connect_quorum(KraftVersion(level=lambda: quorum.level, upgrade=quorum.upgrade))
    return quorum


def both(*, kraft: int, group: int, validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="kraft.version", max_version_level=kraft, upgrade_type=UpgradeType.UPGRADE),
            FeatureUpdateKey(feature="group.version", max_version_level=group, upgrade_type=UpgradeType.SAFE_DOWNGRADE),
        ],
        validate_only=validate_only,
    )


def test_the_quorum_raises_its_own_feature_after_the_others_are_committed(
    harness: ControllerHarness, quorum: Quorum
) -> None:
    workers = harness.virtual.workers
    workers.immediate = False
    quorum.upgraded = Deferred()
    answer = harness.controller.ask(both(kraft=1, group=0))
    assert quorum.calls == [(1, True)]
    workers.run_all()
    assert "group.version" not in harness.image.features.finalized
    assert quorum.calls == [(1, True), (1, False)]
    assert not answer.done
    quorum.upgraded.resolve(None)
    assert [result.feature for result in answer.result().results] == ["group.version", "kraft.version"]


@pytest.mark.parametrize(("kraft", "group"), [(2, 0), (1, 7)])
def test_all_updates_are_made_or_none(harness: ControllerHarness, quorum: Quorum, kraft: int, group: int) -> None:
    before = harness.image
    assert done(harness.controller.ask(both(kraft=kraft, group=group))).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert harness.image is before
    assert all(validate_only for _, validate_only in quorum.calls)


def test_a_validated_update_changes_nothing(harness: ControllerHarness, quorum: Quorum) -> None:
    before = harness.image
    assert not done(harness.controller.ask(both(kraft=1, group=0, validate_only=True))).error_code
    assert harness.image is before
    assert quorum.calls == [(1, True)]


def test_leadership_that_is_lost_before_the_quorum_has_raised_its_feature_is_told(
    harness: ControllerHarness, quorum: Quorum
) -> None:
    quorum.upgraded = Deferred.failed(NotLeaderError("another node leads"))
    error = harness.controller.ask(both(kraft=1, group=0)).error
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.NOT_CONTROLLER


def test_features_go_down_and_up(harness: ControllerHarness) -> None:
    assert update(harness, "group.version", 0, UpgradeType.SAFE_DOWNGRADE).results[0].error_code == ErrorCode.NONE
    assert "group.version" not in harness.image.features.finalized
    assert update(harness, "group.version", 1).results[0].error_code == ErrorCode.NONE
    assert harness.image.features.finalized["group.version"] == 1


def test_a_broker_that_does_not_know_a_feature_keeps_it_off(harness: ControllerHarness) -> None:
    known = registration(2).features
    harness.add_broker(2, features=[feature for feature in known if feature.name != "share.version"])
    assert update(harness, "share.version", 0).error_code == ErrorCode.NONE
    refused = update(harness, "share.version", 1)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "broker 2" in (refused.error_message or "")


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("no.such.feature", 1, UpgradeType.UPGRADE),
        ("share.version", 2, UpgradeType.UPGRADE),
        ("group.version", 0, UpgradeType.UPGRADE),
        ("share.version", 0, 9),
        ("metadata.version", 25, UpgradeType.UNSAFE_DOWNGRADE),
        ("metadata.version", 31, UpgradeType.UPGRADE),
    ],
)
def test_a_level_that_cannot_be_is_refused(harness: ControllerHarness, name: str, level: int, kind: int) -> None:
    before = harness.image
    assert update(harness, name, level, kind).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(harness, name, level, kind, version=2).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert harness.image is before


def test_a_level_under_development_is_taken_where_all_were_told_to() -> None:
    harness = ControllerHarness(properties={"unstable.feature.versions.enable": "true"})
    harness.add_broker(1)
    refused = update(harness, "metadata.version", 31)
    assert "broker 1 has the levels 7 to 30" in (refused.error_message or "")
    unstable = [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in supported_features(unstable=True).items()
    ]
    harness.add_broker(1, features=unstable)
    assert update(harness, "metadata.version", 31).error_code == ErrorCode.NONE
    harness.create("later")
    harness.reopen()
    assert harness.image.features.metadata_version == 31
    assert "later" in harness.image.topics.by_name


def test_the_direction_of_an_update_has_to_be_meant(harness: ControllerHarness) -> None:
    assert update(harness, "share.version", 1).error_code == ErrorCode.NONE
    down = update(harness, "share.version", 0).error_message or ""
    assert "for feature share.version. Can't downgrade the version of this feature without" in down
    assert update(harness, "share.version", 0, UpgradeType.SAFE_DOWNGRADE).error_code == ErrorCode.NONE
    up = update(harness, "share.version", 1, UpgradeType.SAFE_DOWNGRADE).error_message or ""
    assert up.endswith("Invalid update version 1 for feature share.version. Can't downgrade to a newer version.")


def test_producer_ids_come_in_blocks_and_never_twice(harness: ControllerHarness) -> None:
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=harness.image.brokers[1].broker_epoch)
    first = done(harness.controller.ask(request))
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    harness.reopen()
    assert done(harness.controller.ask(request)).producer_id_start == 1000
    stale = harness.controller.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=-1))
    assert isinstance(stale.error, KafkaError)
    assert stale.error.code == ErrorCode.STALE_BROKER_EPOCH


def test_values_that_would_make_the_log_unreadable_are_refused(harness: ControllerHarness) -> None:
    before = harness.image
    change = incremental_alter_configs.AlterConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name="1",
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=f"plug.in.{number}", config_operation=SET, value="x" * 32_000
            )
            for number in range(2_200)
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[change])
    refused = harness.controller.ask(request)
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code is ErrorCode.POLICY_VIOLATION
    assert harness.image is before
    # What comes after it is decided on what is in the log.
    assert incremental(harness, 2, "t", ("retention.ms", SET, "5")) == ErrorCode.NONE
    harness.reopen()
    assert harness.image.configs.of_topic("t") == {"retention.ms": "5"}


@pytest.mark.parametrize("name", ["01", "9" * 5000, "\N{ARABIC-INDIC DIGIT ONE}", "+1"])
def test_a_broker_has_one_name(harness: ControllerHarness, name: str) -> None:
    assert incremental(harness, 4, name, ("message.max.bytes", SET, "5")) == ErrorCode.INVALID_REQUEST
