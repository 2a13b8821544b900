"""A transactional producer of transaction version 1 or 2, and its late messages.

Every transaction writes a few records to several partitions and is committed or aborted at random. An error that a
retry cannot resolve leads to a new InitProducerId, which aborts the open transaction. The outcome is only unknown if a
commit request was not answered; then the transaction must be committed as a whole or not at all.

A message can be delayed, and arrive when its transaction has ended or its producer was fenced (KIP-890):

- a record of an aborted transaction must not be committed by the next transaction, nor block readers for ever;
- an acknowledged record that is sent again must not be written twice;
- AddPartitionsToTxn and EndTxn of an earlier transaction must not change the open transaction (version 2 only: in
  version 1 an epoch lasts for many transactions, so the coordinator cannot tell the difference);
- every request of a fenced instance must be refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.sim.history import Late, Outcome, Transaction
from ottla.sim.tasks import sleep
from ottla.sim.workloads.session import Identity, TransactionFailed, TransactionSession
from ottla.sim.workloads.workload import Stage, Workload

__all__ = ["Transact"]

LATE = "late"


class Transact(Workload):
    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        is_version_2: bool,
        pause_seconds: float,
        late_share: float = 0.2,
    ) -> None:
        super().__init__(stage, name)
        stage.transactional_hosts.add(self.client.host)
        self._partitions = partitions
        self._pause_seconds = pause_seconds
        # The share of transactions that are followed by a late message.
        self._late_share = late_share
        self._late = self.client.kernel.random_for(f"{name}, late messages")
        self._session = TransactionSession(self.client, name, is_version_2=is_version_2)
        self._number = 0
        # The identity of the previous transaction, and a partition that it wrote to.
        self._previous: tuple[Identity, TopicPartition] | None = None

    async def run(self) -> None:
        session = self._session
        await session.begin()
        while not self.stage.is_ending:
            self._number += 1
            transaction = Transaction(producer=self.name, number=self._number)
            self.history.transactions.append(transaction)
            identity = session.identity
            try:
                await self._transact(transaction)
                await self._send_late(transaction, identity)
            except TransactionFailed as failure:
                self.client.kernel.trace(f"transaction: {failure}", f"{self.name}/{self._number}")
                if transaction.outcome is Outcome.OPEN:
                    transaction.outcome = Outcome.ABORTED
                await session.begin()
            if self._late.random() < self._late_share / 2:
                await self._act_as_zombie()
            self.client.kernel.counts[f"transaction {transaction.outcome.value}"] += 1
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))

    async def _transact(self, transaction: Transaction) -> None:
        session = self._session
        count = self.random.randint(1, min(3, len(self._partitions)))
        chosen = self.random.sample(list(self._partitions), count)
        if not session.is_version_2:
            await session.add(chosen)
        for index, partition in enumerate(chosen * self.random.randint(1, 2)):
            value = f"{self.name}/{transaction.number}/{index}".encode()
            transaction.records.append((partition, value))
            await session.produce(partition, value)
            if session.is_version_2 and self._late.random() < self._late_share / 2:
                await self._repeat_earlier_request()
        is_commit = self.random.random() < 0.7
        if is_commit:
            # From here on the transaction may be committed, even if the answer is lost.
            transaction.outcome = Outcome.UNKNOWN
        identity = session.identity
        await session.end(is_commit=is_commit)
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        self._previous = identity, chosen[0]

    # -- late messages ---------------------------------------------------------------------------------------------

    async def _send_late(self, transaction: Transaction, identity: Identity) -> None:
        """Sends a late record after the end of a transaction: a new one if it was aborted, else an acknowledged one."""
        if self._late.random() >= self._late_share:
            return
        session = self._session
        partition, value = transaction.records[-1]
        if session.is_version_2:
            # The new epoch restarted the sequence at 0. The records show the last sequence of the old epoch.
            sequence = sum(written == partition for written, _ in transaction.records)
        else:
            sequence = session.sequence(partition)
        if transaction.outcome is Outcome.COMMITTED:
            # The checker counts how often the record was written.
            error = await session.produce_once(identity, partition, sequence - 1, value, purpose=LATE)
            self._count("acknowledged record again", error)
            return
        value = f"{self.name}/{transaction.number}/late".encode()
        error = await session.produce_once(identity, partition, sequence, value, purpose=LATE)
        self._count("record of an aborted transaction", error)
        if session.is_version_2 or error is not None:
            # Without an answer the record may still arrive and, in version 1, become part of the next transaction.
            self.history.late.append(
                Late(partition=partition, value=value, description="a record of an aborted transaction")
            )
        if not session.is_version_2:
            # The sequence number of the late record may be in use now.
            await session.begin()

    async def _repeat_earlier_request(self) -> None:
        """Within a transaction: sends a request of the previous transaction to the coordinator again."""
        if self._previous is None or self._previous[0][0] != self._session.identity[0]:
            return
        identity, partition = self._previous
        if self._late.random() < 0.5:
            error = await self._session.end_once(identity, is_commit=self._late.random() < 0.5, purpose=LATE)
            self._expect_refusal("EndTxn of an earlier transaction", error, identity)
        else:
            error = await self._session.add_once(identity, [partition], purpose=LATE)
            self._expect_refusal("AddPartitionsToTxn of an earlier transaction", error, identity)

    async def _act_as_zombie(self) -> None:
        """A newer instance takes over, and the fenced instance sends a request as if it were still active."""
        session = self._session
        if self._previous is None:
            return
        identity, partition = session.identity, self._previous[1]
        sequence = session.sequence(partition)
        await session.begin()
        kind = self._late.choice(("produce", "add", "end"))
        if kind == "produce":
            value = f"{self.name}/zombie/{self._number}".encode()
            self.history.late.append(
                Late(partition=partition, value=value, description="a record of a replaced producer")
            )
            error = await session.produce_once(identity, partition, sequence, value, purpose=LATE)
        elif kind == "add":
            error = await session.add_once(identity, [partition], purpose=LATE)
        else:
            error = await session.end_once(identity, is_commit=True, purpose=LATE)
        self._expect_refusal(f"{kind} of a replaced producer", error, identity)

    def _expect_refusal(self, action: str, error: ErrorCode | None, identity: Identity) -> None:
        self._count(action, error)
        if error is ErrorCode.NONE:
            self.history.report_violation(
                "late messages",
                f"{action} was accepted: {self.name} in epoch {identity[1]}, current epoch {self._session.identity[1]}",
            )

    def _count(self, action: str, error: ErrorCode | None) -> None:
        answer = "no answer" if error is None else error.name
        self.client.kernel.trace(f"late {action}: {answer}", f"{self.name}/{self._number}")
