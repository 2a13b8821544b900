"""Feature levels while a voter of `controller.quorum.voters` has not registered (`FeatureControlManager`)."""

from __future__ import annotations

import pytest

from ottla.metadata.controller.features import UpgradeType
from ottla.metadata.versions import supported_features
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, Feature
from tests.unit.metadata.harness import ControllerHarness, done
from tests.unit.metadata.test_controller_configs import update

VOTERS = {"node.id": "1", "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095"}


def register_controller(harness: ControllerHarness, controller_id: int) -> None:
    features = [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in supported_features(unstable=False).items()
    ]
    request = ControllerRegistrationRequest(
        controller_id=controller_id, incarnation_id=Uuid(bytes((6, controller_id)) + bytes(14)), features=features
    )
    done(harness.controller.ask(request))


@pytest.mark.parametrize(("level", "kind"), [(0, UpgradeType.SAFE_DOWNGRADE), (1, UpgradeType.UPGRADE)])
def test_a_voter_that_never_registered_may_not_support_a_level(level: int, kind: int) -> None:
    """It may be of an older release: it could not replay the log any more when it starts."""
    harness = ControllerHarness(properties=VOTERS)
    harness.add_broker(1)
    register_controller(harness, 2)
    before = harness.image.features
    refused = update(harness, "group.version", level, kind)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "controller 3" in (refused.error_message or "")
    assert harness.image.features == before
    register_controller(harness, 3)
    assert update(harness, "group.version", level, kind).error_code == ErrorCode.NONE


def test_the_active_controller_need_not_have_registered() -> None:
    harness = ControllerHarness(properties={**VOTERS, "controller.quorum.voters": "1@127.0.0.1:9093"})
    assert update(harness, "group.version", 0, UpgradeType.SAFE_DOWNGRADE).error_code == ErrorCode.NONE
