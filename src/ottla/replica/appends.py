"""Appends of producers: validates batches and appends them in order, without blocking the loop.

Most batches are validated by their header and appended at once. A batch whose records have to be decoded (another
codec, keys on a compacted topic, an implausible header) is validated on a worker, unless it is small (`validations`).
Meanwhile later batches of the same partition queue behind it, because sequence numbers and the order of records depend
on it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.validate import ProduceSettings, ValidatedRecords, validate_by_header
from ottla.replica.validations import NO_CLIENT, VALIDATION_MS_MAX, ProducingClient, Validations

if TYPE_CHECKING:
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

__all__ = ["APPENDS_WAITING_MAX", "AppendQueue", "append"]

# Queued batches of one partition. Connections already limit the bytes of frames; this limit keeps one partition from
# holding all of them.
APPENDS_WAITING_MAX = 1_000


def append(
    partition: Partition,
    records: memoryview,
    *,
    required_acks: int,
    now_ms: int,
    api_version: int,
    validations: Validations,
    timeout_ms: int = VALIDATION_MS_MAX,
    client: ProducingClient = NO_CLIENT,
) -> AppendResult | Deferred[AppendResult]:
    """Validates and appends the records of one partition. Raises KafkaError if they are refused."""
    if partition.leader_state is None:
        partition.check_leader()
    settings = partition.produce_settings
    assert settings is not None, "a leader has settings"
    queue = partition.append_queue
    validated: ValidatedRecords | None = None
    if queue is None:
        validated = validate_by_header(records, settings=settings, now_ms=now_ms, api_version=api_version)
        if validated is None:
            validated = validations.validate_on_loop(records, settings=settings, now_ms=now_ms, api_version=api_version)
        if validated is not None and (
            validated.schema_tags is None or validations.check_schemas(partition, settings, validated) is None
        ):
            return partition.append_as_leader(validated, required_acks=required_acks, now_ms=now_ms)
    pending = _PendingAppend(
        records,
        required_acks=required_acks,
        now_ms=now_ms,
        api_version=api_version,
        deadline=validations.deadline(timeout_ms),
        client=client,
        validated=validated,
    )
    validations.queue(len(records), pending.result)
    if queue is None:
        queue = AppendQueue(partition, validations)
        partition.open_append_queue(queue)
    return queue.add(pending)


class _PendingAppend:
    __slots__ = ("api_version", "client", "deadline", "now_ms", "records", "required_acks", "result", "validated")

    def __init__(
        self,
        records: memoryview,
        *,
        required_acks: int,
        now_ms: int,
        api_version: int,
        deadline: float,
        client: ProducingClient,
        validated: ValidatedRecords | None,
    ) -> None:
        self.records = records
        self.required_acks = required_acks
        self.now_ms = now_ms
        self.api_version = api_version
        self.deadline = deadline
        self.client = client
        # Set if the batch only waits for the registry. A validation may write the append time into the batch, and the
        # next validation would refuse that as a timestamp type set by the producer.
        self.validated = validated
        self.result: Deferred[AppendResult] = Deferred()


class AppendQueue:
    """The queued batches of one partition, in order of arrival. The queue is closed when it is empty."""

    __slots__ = ("_in_flight", "_partition", "_validations", "_waiting")

    def __init__(self, partition: Partition, validations: Validations) -> None:
        self._partition = partition
        self._validations = validations
        self._waiting: deque[_PendingAppend] = deque()
        self._in_flight: _PendingAppend | None = None

    def add(self, pending: _PendingAppend) -> Deferred[AppendResult]:
        if len(self._waiting) >= APPENDS_WAITING_MAX:
            pending.result.fail(
                KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{APPENDS_WAITING_MAX} batches are already queued for this partition."
                )
            )
            return pending.result
        self._waiting.append(pending)
        if self._in_flight is None:
            self._advance()
        return pending.result

    def _advance(self) -> None:
        """Appends queued batches, up to the next batch for a worker."""
        partition = self._partition
        settings = partition.produce_settings
        assert settings is not None, "a leader has settings"
        # A completed append may bring in the next request, which advances the queue itself.
        while self._waiting and self._in_flight is None:
            pending = self._waiting.popleft()
            try:
                self._validations.check(
                    deadline=pending.deadline, client=pending.client, required_acks=pending.required_acks
                )
                validated = self._validate_at_once(pending, settings)
            except Exception as error:  # noqa: BLE001 - the request fails, also with a defect
                pending.result.fail(error)
                continue
            if validated is not None:
                self._finish(pending, Deferred.resolved(validated))
                continue
            self._in_flight = pending
            self._validations.validate_on_workers(
                pending.records,
                settings=settings,
                now_ms=pending.now_ms,
                api_version=pending.api_version,
                deadline=pending.deadline,
                client=pending.client,
                required_acks=pending.required_acks,
            ).when_done(self._on_validated)
            return
        if self._in_flight is None:
            partition.close_append_queue()

    def _validate_at_once(self, pending: _PendingAppend, settings: ProduceSettings) -> ValidatedRecords | None:
        """None if the batch needs a worker."""
        if pending.validated is not None:
            return pending.validated
        records, now_ms, api_version = pending.records, pending.now_ms, pending.api_version
        validated = validate_by_header(records, settings=settings, now_ms=now_ms, api_version=api_version)
        if validated is not None:
            return validated
        return self._validations.validate_on_loop(records, settings=settings, now_ms=now_ms, api_version=api_version)

    def _on_validated(self, validated: Deferred[ValidatedRecords]) -> None:
        pending, self._in_flight = self._in_flight, None
        assert pending is not None, "a worker answered twice"
        self._finish(pending, validated)
        self._advance()

    def _finish(self, pending: _PendingAppend, validated: Deferred[ValidatedRecords]) -> None:
        """Appends the batch, or first waits for the registry's answer about its schemas."""
        if validated.error is not None:
            pending.result.fail(validated.error)
            return
        records = validated.result()
        if records.schema_tags is None:
            self._append(pending, records)
            return
        settings = self._partition.produce_settings
        assert settings is not None, "a leader has settings"
        try:
            checked = self._validations.check_schemas(self._partition, settings, records)
        except Exception as error:  # noqa: BLE001 - the request fails, also with a defect
            pending.result.fail(error)
            return
        if checked is None:
            self._append(pending, records)
            return
        self._in_flight = pending
        checked.when_done(partial(self._on_schemas_checked, records))

    def _on_schemas_checked(self, records: ValidatedRecords, checked: Deferred[None]) -> None:
        pending, self._in_flight = self._in_flight, None
        assert pending is not None, "the registry answered twice"
        try:
            checked.result()
            self._validations.check(
                deadline=pending.deadline, client=pending.client, required_acks=pending.required_acks
            )
        except Exception as error:  # noqa: BLE001 - the request fails, also with a defect
            pending.result.fail(error)
        else:
            self._append(pending, records)
        self._advance()

    def _append(self, pending: _PendingAppend, records: ValidatedRecords) -> None:
        try:
            result = self._partition.append_as_leader(
                records, required_acks=pending.required_acks, now_ms=pending.now_ms
            )
        except Exception as error:  # noqa: BLE001 - the batches behind it are appended
            pending.result.fail(error)
        else:
            pending.result.resolve(result)
