"""Errors that prevent a node from starting or running, as messages for the operator."""

from __future__ import annotations

from typing import Final

from ottla.metadata.delta import CorruptMetadataError
from ottla.metadata.format import StorageNotFormattedError
from ottla.model.errors import KafkaError
from ottla.quorum.errors import MetadataLogDamagedError, MetadataLogFailedError, MetadataLogUnsupportedError
from ottla.storage.errors import DirectoryRefused

__all__ = ["START_FAILURES", "StartError", "start_error"]


class StartError(Exception):
    """The node cannot start or continue. The message is a sentence for the operator."""


# Operating errors, not defects. Their messages describe the cause.
START_FAILURES: Final = (
    StartError,
    CorruptMetadataError,
    DirectoryRefused,
    KafkaError,
    MetadataLogDamagedError,
    MetadataLogFailedError,
    MetadataLogUnsupportedError,
    OSError,
    StorageNotFormattedError,
)


def start_error(error: BaseException) -> BaseException:
    """A StartError with a message for the operator. An unexpected error is returned unchanged."""
    if isinstance(error, StartError) or not isinstance(error, START_FAILURES):
        return error
    sentence = error.message if isinstance(error, KafkaError) else str(error)
    if isinstance(error, OSError) and error.filename is not None:
        sentence = f"Cannot use {error.filename}: {error.strerror}"
    return StartError(sentence if sentence.endswith(".") else f"{sentence}.")
