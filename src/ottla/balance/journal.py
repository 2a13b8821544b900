"""The plan on disk, so that an interrupted run can be resumed.

One process at a time executes a plan: it locks the file. A process that is killed releases its lock.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.balance.planner import Movement
from ottla.balance.steps import Step
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["Journal", "JournalInUse"]

VERSION = 1


class JournalInUse(ValueError):
    """Another process executes the plan, or has just completed it."""


class Journal:
    """A file with the steps of a plan. The progress is read from the cluster, so the file is written once."""

    def __init__(
        self,
        path: Path,
        cluster_id: str,
        steps: Sequence[Step],
        throttle: int | None,
        *,
        drained: Sequence[int] = (),
        topic_ids: Mapping[str, Uuid] | None = None,
        is_repair: bool = False,
    ) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.steps = tuple(steps)
        self.throttle = throttle
        # Brokers that the plan empties: they get no new partitions meanwhile.
        self.drained = tuple(drained)
        # The ids distinguish a topic from a topic that was created later with the same name. A journal may lack them.
        self.topic_ids = dict(topic_ids or {})
        # True for a plan of `ottla balance watch`, which may continue it. Only an operator continues any other plan.
        self.is_repair = is_repair

    def write(self) -> None:
        content = {
            "version": VERSION,
            "cluster": self.cluster_id,
            "throttle": self.throttle,
            "drained": self.drained,
            "repair": self.is_repair,
            "topics": {name: str(topic_id) for name, topic_id in self.topic_ids.items()},
            "steps": [[_written(movement) for movement in step.movements] for step in self.steps],
        }
        # Another run may be reading the file, so it must be complete at any time.
        draft = self.path.with_name(f"{self.path.name}.draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from executing the plan. Raises JournalInUse."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise JournalInUse(f"{self.path} has been removed: another process has completed the plan.") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise JournalInUse(f"Another process executes the plan in {self.path}.") from None
            yield

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: Path) -> Journal:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["version"] != VERSION:
                raise ValueError
            steps = [Step(tuple(_read(row) for row in rows)) for rows in content["steps"]]
            drained = tuple(map(int, content.get("drained", ())))
            topic_ids = {name: Uuid.parse(text) for name, text in content.get("topics", {}).items()}
            return cls(
                *(path, str(content["cluster"]), steps, content["throttle"]),
                drained=drained,
                topic_ids=topic_ids,
                is_repair=content.get("repair") is True,
            )
        except FileNotFoundError:
            raise ValueError(f"{path} does not exist: no plan was interrupted here.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{path} is no journal of 'ottla balance'.") from None


def _written(movement: Movement) -> dict[str, Any]:
    return {
        "topic": movement.partition.topic,
        "partition": movement.partition.partition,
        "before": movement.before,
        "after": movement.after,
        "bytes": movement.size_bytes,
    }


def _read(row: dict[str, Any]) -> Movement:
    return Movement(
        partition=TopicPartition(str(row["topic"]), int(row["partition"])),
        before=tuple(map(int, row["before"])),
        after=tuple(map(int, row["after"])),
        size_bytes=float(row["bytes"]),
    )
