"""Applies exception handlers in a task: builds their context, counts what they drop, and keeps their dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import FailedProcessingError
from ottla.streams.machine.handlers import (
    ErrorHandlerContext,
    Response,
    Result,
    SerializationExceptionOrigin,
)
from ottla.streams.record import Record

if TYPE_CHECKING:
    from ottla.streams.machine.processor import Cancellable
    from ottla.streams.machine.task import StreamTask

__all__ = ["FaultHandling", "ask_handler"]

Process = Callable[[Record], None]


class FaultHandling:
    def __init__(self, task: StreamTask) -> None:
        self._task = task
        self._handlers = handlers = task.settings.handlers
        # Dead letters are source records.
        self.keeps_source = handlers.catches_processing or bool(handlers.production.dead_letter_topic)
        # A user's production handler gets the origin of a record that a broker refuses.
        self.keeps_origin = handlers.handles_production

    def guarded(self, node: str, process: Process) -> Process:
        """A node whose exceptions go to the processing handler; the node itself for the default handler."""
        if not self._handlers.catches_processing:
            return process

        def guarded_process(record: Record) -> None:
            try:
                process(record)
            except FailedProcessingError:
                raise
            except Exception as error:  # noqa: BLE001
                self._on_processing_error(node, record, error)

        return guarded_process

    def punctuate(self, due: Cancellable, now_ms: int) -> None:
        if not self._handlers.catches_processing:
            due.callback(now_ms)
            return
        try:
            due.callback(now_ms)
        except FailedProcessingError:
            raise
        except Exception as error:  # noqa: BLE001
            self._on_processing_error(due.node, None, error)

    def on_undecodable(self, node: str, topic: str, partition: int, record: Any, error: Exception) -> None:
        """Raises FailedProcessingError, or the record is dropped."""
        context = ErrorHandlerContext(
            task_id=self._task.task_id,
            processor_node_id=node,
            topic=topic,
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            headers=tuple(record.headers or ()),
            source_raw_key=record.key,
            source_raw_value=record.value,
        )
        response = ask_handler(
            lambda: self._handlers.deserialization.handle_error(context, record, error), context, error
        )
        self._apply(response, context, error, "cannot be deserialized", "deserialization.exception.handler")

    def on_unserializable(
        self, node: str, topic: str, record: Record, error: Exception, origin: SerializationExceptionOrigin
    ) -> None:
        context = self.context(node)
        handler = self._handlers.production
        response = ask_handler(
            lambda: handler.handle_serialization_error(context, record, error, origin), context, error
        )
        problem = f"cannot be serialized for topic {topic} (its {origin.value})"
        self._apply(response, context, error, problem, "production.exception.handler")

    def _on_processing_error(self, node: str, record: Record | None, error: Exception) -> None:
        context = self.context(node)
        response = ask_handler(lambda: self._handlers.processing.handle_error(context, record, error), context, error)
        self._apply(response, context, error, "cannot be processed", "processing.exception.handler")

    def context(self, node: str) -> ErrorHandlerContext:
        task, place, source = self._task, self._task.metadata, self._task.source_record
        if place is None:
            return ErrorHandlerContext(task_id=task.task_id, processor_node_id=node, timestamp=task.timestamp)
        return ErrorHandlerContext(
            task_id=task.task_id,
            processor_node_id=node,
            topic=place.topic,
            partition=place.partition,
            offset=place.offset,
            timestamp=task.timestamp,
            headers=() if source is None else tuple(source.headers or ()),
            source_raw_key=None if source is None else source.key,
            source_raw_value=None if source is None else source.value,
        )

    def _apply(
        self, response: Response, context: ErrorHandlerContext, error: Exception, problem: str, key: str
    ) -> None:
        self._task.outputs.extend(response.dead_letter_queue_records)
        if response.result is Result.FAIL:
            raise FailedProcessingError(
                f"A record {problem} ({context}): {error!r}. To skip records like it, set {key}."
            ) from error
        reason = f"{context.processor_node_id}: {problem}"
        self._task.dropped[reason] = self._task.dropped.get(reason, 0) + 1


def ask_handler(handle: Callable[[], Response], context: ErrorHandlerContext, error: Exception) -> Response:
    """An exception of the handler itself is fatal."""
    try:
        response = handle()
    except Exception as failure:
        failure.add_note(f"An exception handler failed while it handled {error!r} ({context}).")
        raise FailedProcessingError(f"An exception handler has failed ({context}): {failure!r}") from failure
    if not isinstance(response, Response):
        raise FailedProcessingError(
            f"An exception handler returned {response!r} ({context}); it returns Response.resume() or Response.fail()."
        ) from error
    return response
