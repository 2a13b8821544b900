"""The copy of the metadata log on a node without a vote.

Nothing waits for an fsync: the leader still has everything that a crash takes away. A damaged copy is discarded and
fetched again.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.model.ports import World
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.quorum.local_log import METADATA_DIRECTORY, LocalMetadataLog, MetadataLogSettings
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state

__all__ = ["ObserverLog"]

NO_NODE = -1


class ObserverLog(LocalMetadataLog):
    """Created by `open`; the observer's fetch loop appends to it."""

    def __init__(
        self, *, world: World, directory: str, node_id: int, settings: MetadataLogSettings, directory_id: Uuid
    ) -> None:
        super().__init__(
            world=world, directory=directory, node_id=node_id, settings=settings, directory_id=directory_id
        )
        self._leader_id = NO_NODE
        # True if the copy was damaged and discarded on opening, for the log line.
        self.was_discarded = False

    @classmethod
    def open(
        cls,
        *,
        world: World,
        metadata_log_dir: str,
        node_id: int,
        settings: MetadataLogSettings | None = None,
        directory_id: Uuid = Uuid.ZERO,
    ) -> ObserverLog:
        directory = f"{metadata_log_dir}/{METADATA_DIRECTORY}"

        def opened() -> ObserverLog:
            log = cls(
                world=world,
                directory=directory,
                node_id=node_id,
                settings=settings or MetadataLogSettings(),
                directory_id=directory_id,
            )
            log._recover()
            log._write_partition_metadata()
            state = read_quorum_state(world.files, directory)
            log._leader_epoch = max(0 if state is None else state.leader_epoch, log._journal.last_epoch, 0)
            return log

        try:
            return opened()
        except MetadataLogDamagedError:
            world.files.remove_tree(directory)
            log = opened()
            log.was_discarded = True
            return log

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Empty: observers do not track the voters."""
        return ()

    def follow(self, *, leader_id: int, leader_epoch: int) -> None:
        """Stores the leader; epochs never go back."""
        assert leader_epoch >= self._leader_epoch, "an older epoch is not followed"
        if (leader_id, leader_epoch) == (self._leader_id, self._leader_epoch):
            return
        self._leader_id = leader_id
        self._leader_epoch = leader_epoch
        write_quorum_state(
            self._world.files,
            self._directory,
            QuorumState(
                leader_id=leader_id,
                leader_epoch=leader_epoch,
                voters=(leader_id,) if self.kraft_version == 0 and leader_id != NO_NODE else (),
                data_version=1 if self.kraft_version > 0 else 0,
            ),
        )

    def close(self) -> None:
        """Syncs unsynced entries and closes the files. Blocks."""
        self.abandon_snapshot()
        for file in self._journal.unsynced:
            file.sync()
        self._journal.close()
