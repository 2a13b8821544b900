"""Broker settings that change while the node runs (KIP-226).

A publisher: when the dynamic settings of this broker, or the defaults of all brokers, change in the metadata, a new
`BrokerConfig` is made of the static file and the two dynamic layers, and passed to every component with a
configuration. A value that cannot be used is logged and ignored, so that it does not stop the node. Values are
validated before they are written, but perhaps by a newer release.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.metadata.image import ResourceType
from ottla.model.config.dynamic import usable_dynamic

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage

__all__ = ["DynamicConfig"]

logger = logging.getLogger("ottla.broker.dynamic_config")


class DynamicConfig:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def follow(self) -> None:
        """Applies the settings of the current image, and every later change."""
        self.start(self._broker.metadata.image)
        self._broker.metadata.add(self)

    def start(self, image: MetadataImage) -> None:
        """Applies the settings of an image."""
        self._apply(image)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        own = ("", str(self._broker.node_id))
        if any(resource.type == ResourceType.BROKER and resource.name in own for resource in delta.configs_changed):
            self._apply(image)

    def _apply(self, image: MetadataImage) -> None:
        broker = self._broker
        own = image.configs.of_broker(broker.node_id)
        of_all = image.configs.of_all_brokers()
        if own == broker.config.dynamic and of_all == broker.config.dynamic_defaults:
            return
        config, problems = usable_dynamic(broker.config, dynamic=own, dynamic_defaults=of_all)
        for problem in problems:
            logger.error("ignoring an invalid dynamic broker setting: %s", problem)
        broker.config = config
        if broker.local_controller is not None:
            broker.local_controller.config = config
        broker.logs.config = config
        broker.replicas.on_broker_config(config)
        for follow in broker.on_config_changed:
            follow(config)
