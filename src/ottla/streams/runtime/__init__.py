"""Applications: topologies that run on Spark. See README.md."""

from ottla.streams.runtime.application import Application, State, UncaughtExceptionResponse
from ottla.streams.runtime.restore_listener import StateRestoreListener

__all__ = ["Application", "State", "StateRestoreListener", "UncaughtExceptionResponse"]
