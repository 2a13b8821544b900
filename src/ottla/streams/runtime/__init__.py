"""Applications: topologies that run on Spark. See README.md."""

from ottla.streams.runtime.application import Application, State, UncaughtExceptionResponse

__all__ = ["Application", "State", "UncaughtExceptionResponse"]
