"""Reports of replica directories to the controller."""

from __future__ import annotations

from ottla.metadata.image import PartitionImage
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.replica.directory_reporter import LOST, DirectoryReporter
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tests.support.virtual_world import VirtualWorld

TOPIC, OTHER, FIRST, SECOND = (Uuid(bytes((number,)) * 16) for number in (1, 2, 3, 4))


class Controller:
    """Keeps requests until a test answers them."""

    def __init__(self) -> None:
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.answers: list[Deferred[AssignReplicasToDirsResponse]] = []

    def ask(self, request: AssignReplicasToDirsRequest) -> Deferred[AssignReplicasToDirsResponse]:
        self.requests.append(request)
        self.answers.append(Deferred())
        return self.answers[-1]

    def assigned(self) -> list[tuple[Uuid, Uuid, int]]:
        return [
            (directory.id, topic.topic_id, partition.partition_index)
            for directory in self.requests[-1].directories
            for topic in directory.topics
            for partition in topic.partitions
        ]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.answers[-1].resolve(
            AssignReplicasToDirsResponse(
                directories=[
                    ResponseDirectoryData(
                        id=directory.id,
                        topics=[
                            ResponseTopicData(
                                topic_id=topic.topic_id,
                                partitions=[
                                    ResponsePartitionData(partition_index=partition.partition_index, error_code=code)
                                    for partition in topic.partitions
                                ],
                            )
                            for topic in directory.topics
                        ],
                    )
                    for directory in self.requests[-1].directories
                ]
            )
        )


class Setting:
    def __init__(self) -> None:
        self.virtual = VirtualWorld()
        self.controller = Controller()
        self.epoch = 7
        self.reporter = DirectoryReporter(
            node_id=1,
            scheduler=self.virtual.world.scheduler,
            controller=self.controller,
            broker_epoch=lambda: self.epoch,
        )

    def run(self, ms: int = 0) -> int:
        self.virtual.scheduler.advance(ms)
        return len(self.controller.requests)


def test_what_comes_together_is_told_together_and_once() -> None:
    setting = Setting()
    setting.reporter.report(TOPIC, 0, FIRST)
    setting.reporter.report(TOPIC, 1, SECOND)
    setting.reporter.report(OTHER, 0, FIRST)
    assert setting.run() == 1
    assert setting.controller.assigned() == [(FIRST, TOPIC, 0), (FIRST, OTHER, 0), (SECOND, TOPIC, 1)]
    request = setting.controller.requests[0]
    assert (request.broker_id, request.broker_epoch) == (1, 7)
    setting.controller.answer()
    assert setting.run(10_000) == 1


def test_while_one_request_is_under_way_the_next_waits() -> None:
    setting = Setting()
    setting.reporter.report(TOPIC, 0, FIRST)
    setting.run()
    setting.reporter.report(TOPIC, 0, SECOND)
    assert setting.run(10_000) == 1
    setting.controller.answer()
    assert setting.run() == 2
    assert setting.controller.assigned() == [(SECOND, TOPIC, 0)]


def test_what_is_not_taken_is_told_again() -> None:
    setting = Setting()
    setting.reporter.report(TOPIC, 0, FIRST)
    setting.run()
    setting.controller.answers[-1].fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    assert setting.run(999) == 1
    assert setting.run(1) == 2
    setting.controller.answer(ErrorCode.KAFKA_STORAGE_ERROR)
    assert setting.run(1_000) == 3
    setting.controller.answer(ErrorCode.UNKNOWN_TOPIC_ID)
    assert setting.run(10_000) == 3


def test_a_cluster_without_directories_is_left_alone() -> None:
    setting = Setting()
    setting.reporter.report(TOPIC, 0, FIRST)
    setting.run()
    setting.controller.answers[-1].fail(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    assert setting.run(10_000) == 1


def test_nothing_is_told_before_the_registration_or_after_the_end() -> None:
    setting = Setting()
    setting.epoch = -1
    setting.reporter.report(TOPIC, 0, FIRST)
    assert setting.run() == 0
    setting.epoch = 7
    assert setting.run(1_000) == 1
    setting.reporter.report(OTHER, 0, FIRST)
    setting.reporter.close()
    setting.controller.answer()
    assert setting.run(10_000) == 1


def test_a_replica_that_cannot_be_used_is_reported_while_another_is_in_sync() -> None:
    setting = Setting()
    view = PartitionImage((1, 2), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0, directories=(FIRST, SECOND))
    setting.reporter.report_lost(TOPIC, 0, view._replace(isr=(1,)))
    setting.reporter.report_lost(TOPIC, 0, view._replace(directories=(LOST, SECOND)))
    assert setting.run() == 0
    setting.reporter.report_lost(TOPIC, 0, view)
    assert setting.run() == 1
    assert setting.controller.assigned() == [(LOST, TOPIC, 0)]
