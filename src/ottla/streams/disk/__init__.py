"""State on disk: a directory for every task, with a table for every store. Needs `lmdb`. See README.md."""

from ottla.streams.disk.directory import StateDirectory
from ottla.streams.disk.task_state import TaskState, is_available

__all__ = ["StateDirectory", "TaskState", "is_available"]
