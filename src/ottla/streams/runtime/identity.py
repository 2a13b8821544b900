"""The identity of a worker, also after a crash: the process id of its instance is kept in the state directory.

A restarted instance takes the place of the crashed instance: with the same static members of the group it gets the
same tasks at once, and with the same transactional ids it ends the transactions that were left open.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ottla.streams.errors import StreamsError

__all__ = ["Instance", "WorkerIdentity", "is_transactional_id_of"]

# More instances than this on one machine are a mistake of a script.
_INSTANCES_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    application_id: str
    process_id: str
    number: int
    # group.instance.id of the user; workers append their numbers.
    instance_name: str = ""
    # Of the instance: state is kept below it, on the machine that runs the worker.
    directory: str = ""

    @property
    def transactional_id(self) -> str:
        """The name that Kafka Streams uses with exactly_once_v2."""
        return f"{self.application_id}-{self.process_id}-{self.number}"

    @property
    def instance_id(self) -> str:
        """The group.instance.id of the static member."""
        return f"{self.instance_name or self.process_id}-{self.number}"


def is_transactional_id_of(application_id: str, transactional_id: str) -> bool:
    uuid_text = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    return re.fullmatch(rf"{re.escape(application_id)}-{uuid_text}-\d+", transactional_id) is not None


class Instance:
    """A place in the state directory that belongs to this process while it runs: `directory` is its own."""

    def __init__(self, state_directory: Path, application_id: str) -> None:
        base = state_directory / application_id
        for number in range(_INSTANCES_MAX):
            directory = base / f"instance-{number}"
            try:
                directory.mkdir(parents=True, exist_ok=True)
                lock = (directory / "lock").open("a+b")
            except OSError as error:
                raise StreamsError(
                    f"The state directory {directory} cannot be used ({error}); set state.dir to a directory that "
                    "this process may write."
                ) from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            self._lock: IO[bytes] | None = lock
            self.directory = directory
            self.process_id = _process_id(directory / "kafka-streams-process-metadata")
            return
        raise StreamsError(f"{_INSTANCES_MAX} instances of {application_id} run with the state directory {base}.")

    def close(self) -> None:
        """Releases the place for the next instance of the application."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _process_id(path: Path) -> str:
    try:
        return str(uuid.UUID(json.loads(path.read_bytes())["processId"]))
    except (OSError, ValueError, KeyError, TypeError):
        process_id = str(uuid.uuid4())
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"processId": process_id}))
    os.replace(temporary, path)
    return process_id
