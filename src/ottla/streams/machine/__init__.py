"""Stream tasks as state machines. See README.md."""

from ottla.streams.machine.processor import (
    Cancellable,
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    PunctuationType,
)
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.machine.task import ChangelogRecord, InputRecord, OutputRecord, StreamTask

__all__ = [
    "Cancellable",
    "ChangelogRecord",
    "FixedKeyProcessor",
    "InputRecord",
    "OutputRecord",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
    "StreamTask",
    "TaskSettings",
]
