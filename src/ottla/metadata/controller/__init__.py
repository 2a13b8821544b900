"""The controller: decisions about topics, partitions, brokers, configurations, features and producer ids."""

from __future__ import annotations

from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.gateway import Caller, ControllerContext, ControllerGateway

__all__ = ["Caller", "Controller", "ControllerContext", "ControllerGateway"]
