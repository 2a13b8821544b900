"""Every publisher is notified of a new image, also if another publisher fails."""

from __future__ import annotations

import logging

import pytest

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.publishers import Publishers
from tests.unit.metadata.harness import ControllerHarness
from tests.unit.metadata.test_follower import Watcher, follower_of


class Broken:
    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        del delta
        raise KeyError(f"offset {image.offset}")


def test_one_that_fails_keeps_neither_the_others_nor_later_changes_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    follower, _ = follower_of(harness)
    after_it = Watcher()
    follower.publishers.add(Broken())
    follower.publishers.add(after_it)
    with caplog.at_level(logging.ERROR):
        for topic in ("first", "second"):
            harness.create(topic)
            follower.advance()
    assert [set(image.topics.by_name) for image in after_it.images] == [{"first"}, {"first", "second"}]
    assert follower.publishers.failures == 2
    assert [record.exc_info is not None and "Broken" in record.getMessage() for record in caplog.records] == [True] * 2


def test_a_controller_answers_although_a_publisher_fails() -> None:
    harness = ControllerHarness()
    harness.add_broker(1)
    harness.controller.publishers.add(Broken())
    harness.create("topic")
    assert harness.controller.publishers.failures
    assert "topic" in harness.image.topics.by_name


def test_nothing_failed_at_first() -> None:
    assert Publishers(MetadataImage()).failures == 0
