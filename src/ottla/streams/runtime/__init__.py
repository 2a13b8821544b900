"""Applications: topologies that run on Spark. See README.md."""

from ottla.streams.runtime.application import Application, State

__all__ = ["Application", "State"]
