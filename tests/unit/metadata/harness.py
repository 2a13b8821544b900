"""A controller on a log in memory, with brokers that register and send heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ottla.metadata.controller import Controller
from ottla.metadata.invariants import check_step
from ottla.metadata.versions import SUPPORTED_FEATURES
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.quorum.log import MetadataLogSettings
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.files import MemoryFiles
from tests.support.quorum import start_single_voter
from tests.support.virtual_world import VirtualWorld

__all__ = ["CLUSTER_ID", "DIRECTORY", "ControllerHarness", "done", "registration"]

T = TypeVar("T")

CLUSTER_ID = "bvqR-n8_QomauYpWSwjOMw"
DIRECTORY = "/data"


def done(deferred: Deferred[T]) -> T:
    assert deferred.done, "not answered yet"
    return deferred.result()


def registration(broker_id: int, *, incarnation: int = 1, **fields: Any) -> BrokerRegistrationRequest:
    defaults: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": Uuid(bytes((9, broker_id, incarnation)) + bytes(13)),
        "listeners": [Listener(name="PLAINTEXT", host="127.0.0.1", port=9092 + broker_id, security_protocol=0)],
        "features": [
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        ],
        "rack": None,
        "log_dirs": [Uuid(bytes((7, broker_id)) + bytes(14))],
        "previous_broker_epoch": -1,
    }
    return BrokerRegistrationRequest(**{**defaults, **fields})


class ControllerHarness:
    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        virtual: VirtualWorld | None = None,
        settings: MetadataLogSettings | None = None,
    ) -> None:
        self.virtual = virtual or VirtualWorld(immediate_workers=True, files=MemoryFiles())
        self.world = self.virtual.world
        self.config = BrokerConfig.embedded(properties)
        self.settings = settings
        self.virtual.files.make_directories(DIRECTORY)
        self.open()

    def open(self) -> None:
        self.quorum = start_single_voter(
            world=self.world, metadata_log_dir=DIRECTORY, node_id=self.config.node_id, settings=self.settings
        )
        self.log = self.quorum.log
        self.controller = Controller.open(
            world=self.world,
            log=self.log,
            config=self.config,
            cluster_id=CLUSTER_ID,
            metadata_log_dir=DIRECTORY,
        )
        self._check_every_decision()

    def _check_every_decision(self) -> None:
        controller, seen = self.controller, self.controller.image
        submit = controller.submit

        def submit_and_check(*arguments: Any) -> Deferred[Any]:
            nonlocal seen
            answer = submit(*arguments)
            controller.invariants()
            check_step(seen, controller.image)
            seen = controller.image
            return answer

        self.controller.submit = submit_and_check  # type: ignore[assignment, method-assign]

    def reopen(self) -> None:
        self.log.close()
        self.open()

    @property
    def memory(self) -> MemoryFiles:
        assert isinstance(self.virtual.files, MemoryFiles)
        return self.virtual.files

    @property
    def image(self) -> Any:
        return self.controller.image

    def add_broker(self, broker_id: int, *, unfence: bool = True, **fields: Any) -> int:
        """Registers a broker and unfences it; returns its epoch."""
        epoch = done(self.controller.ask(registration(broker_id, **fields))).broker_epoch
        if unfence:
            answer = self.beat(broker_id)
            assert not answer.is_fenced
        return epoch

    def beat(self, broker_id: int, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": self.image.brokers[broker_id].broker_epoch,
            "current_metadata_offset": self.image.offset,
        }
        response = self.controller.ask(BrokerHeartbeatRequest(**{**defaults, **fields}))
        # A decision about many partitions takes several turns.
        self.virtual.scheduler.run()
        return done(response)

    def create(self, name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)
        response = done(self.controller.ask(CreateTopicsRequest(topics=[topic])))
        return response.topics[0]
