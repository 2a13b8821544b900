"""A task that one worker at a time can run: opening its transactional id fences all previous owners.

Sources write rows and offsets in transactions of that id; sinks store their positions in them. A task therefore begins
by taking over: it opens the id, and only then reads its position, which no other worker can move any more. It takes
over again when it is not `placed`: after a failure that leaves its position in the cluster unknown.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.connect.work.chain_interface import Chain
from ottla.connect.work.task_loop import StoppedError, TaskLoop, TaskStart
from ottla.connect.work.transactions import TaskTransactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FencedTask"]


class FencedTask(TaskLoop):
    # True if the task's position is known.
    placed: bool = False

    def __init__(
        self,
        start: TaskStart,
        *,
        spark: SparkSession,
        chain: Chain,
        transactions: TaskTransactions,
        is_current: Callable[[FencedTask], bool],
    ) -> None:
        super().__init__(start)
        self.spark = spark
        self.chain = chain
        self.transactions = transactions
        self._is_current = is_current
        # The tag by which Spark finds the jobs of this task to cancel them.
        self._tag = f"ottla-connect-{self.spec.task.id}"

    @abstractmethod
    def open_plugin(self) -> None:
        """Opens the connector's reader or writer, unless it is open."""

    @abstractmethod
    def close_plugin(self) -> None:
        """Closes the reader or writer, if it is open."""

    @abstractmethod
    def find_place(self) -> None:
        """Reads the task's position from the cluster and from the target."""

    @property
    def is_current(self) -> bool:
        """True if this is the worker's present run of the task."""
        return self._is_current(self)

    def open(self) -> None:
        self.spark.addTag(self._tag)
        self.open_plugin()
        self.take_over()

    def close(self) -> None:
        self.close_plugin()
        self.wait_for(self.transactions.close())

    def cancel(self) -> None:
        self.spark.interruptTag(self._tag)

    def take_over(self) -> None:
        """Fences the previous owner of the task, and reads the task's position."""
        self.wait_for(self.transactions.open())
        if not self.is_current:
            raise StoppedError
        self.find_place()
        self.placed = True
