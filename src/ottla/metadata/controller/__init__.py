"""The controller: decisions about topics, partitions, brokers, configurations, features and producer ids."""

from __future__ import annotations

from ottla.metadata.controller.controller import Caller, Controller, ControllerContext

__all__ = ["Caller", "Controller", "ControllerContext"]
