"""Opening a node's metadata: log, image and controller in one step, from its configuration."""

from __future__ import annotations

from ottla.metadata.controller import Controller
from ottla.metadata.format import FormattedStorage
from ottla.model.config import BrokerConfig
from ottla.model.ports import World
from ottla.quorum.log import MetadataLogSettings, SingleVoterLog

__all__ = ["open_controller"]


def open_controller(*, world: World, config: BrokerConfig, storage: FormattedStorage) -> Controller:
    """The controller of a node whose directories are formatted and locked.

    The log's errors (`ottla.quorum.errors`) and `CorruptMetadataError` say what is wrong with the files; a node must
    not start with them. `controller.log` is the `SingleVoterLog`; set its `on_failure` to stop the node, and close it
    after everything else.
    """
    log = SingleVoterLog.open(
        world=world,
        metadata_log_dir=config.metadata_log_dir,
        node_id=config.node_id,
        settings=MetadataLogSettings(
            segment_bytes=config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        ),
        directory_id=storage.directory_ids[config.metadata_log_dir],
    )
    return Controller.open(
        world=world,
        log=log,
        config=config,
        cluster_id=storage.cluster_id,
        metadata_log_dir=config.metadata_log_dir,
    )
