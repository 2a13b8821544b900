"""A task that one worker runs, whoever else thinks it does: opening its transactional id fences everybody before.

Sources write rows and offsets in transactions of that id, sinks note in them how far they are. So a task begins by
taking itself over: it opens the id, and only then asks where it stands, because nobody else can move it any more. It
does so once more whenever it is no longer `placed`: when something failed in a way that leaves open what the cluster
has of it.
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
    # Whether it knows where it stands.
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
        # By this Spark finds the jobs of the task's thread, to cancel them.
        self._tag = f"ottla-connect-{self.spec.task.id}"

    @abstractmethod
    def open_plugin(self) -> None:
        """Opens what the connector made for this task; not again where that is done."""

    @abstractmethod
    def close_plugin(self) -> None:
        """Closes it, if it was opened."""

    @abstractmethod
    def find_place(self) -> None:
        """Where the task stands, in the cluster and in whatever it writes to."""

    @property
    def is_current(self) -> bool:
        """Whether this worker still wants this task, and not a later one of the same name."""
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
        """Fences whoever had the task before, and finds where it was."""
        self.wait_for(self.transactions.open())
        if not self.is_current:
            raise StoppedError
        self.find_place()
        self.placed = True
