"""A transactional producer of either generation of the protocol, and messages of it that come late.

Each transaction writes a few records to several partitions and is committed or aborted by chance. Whatever goes wrong
for good ends in a new InitProducerId, which aborts what is open; only where a commit was asked for and never answered
is the outcome not known, and then it must be all or nothing.

A message may be on its way for long, and arrive when its transaction has ended or its producer was replaced (KIP-890):

- a record of an aborted transaction must not be committed by the next one, nor keep readers waiting for ever;
- a record that was acknowledged and is sent once more must not be there twice;
- AddPartitionsToTxn and EndTxn of an earlier transaction must not touch the one that is open (second version only: in
  the first an epoch lasts for many transactions, and nobody can tell);
- whoever was replaced by a newer instance must be refused, whatever it asks for.
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
        is_new: bool,
        pause_seconds: float,
        late_share: float = 0.2,
    ) -> None:
        super().__init__(stage, name)
        stage.transactional_hosts.add(self.client.host)
        self._partitions = partitions
        self._pause_seconds = pause_seconds
        # How many of the transactions are followed by a message that should have come before.
        self._late_share = late_share
        self._late = self.client.kernel.random_for(f"{name}, late messages")
        self._session = TransactionSession(self.client, name, is_new=is_new)
        self._number = 0
        # An epoch that has ended, and a partition it wrote to.
        self._before: tuple[Identity, TopicPartition] | None = None

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
                await self._come_back_from_the_dead()
            self.client.kernel.counts[f"transaction {transaction.outcome.value}"] += 1
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))

    async def _transact(self, transaction: Transaction) -> None:
        session = self._session
        count = self.random.randint(1, min(3, len(self._partitions)))
        chosen = self.random.sample(list(self._partitions), count)
        if not session.is_new:
            await session.add(chosen)
        for index, partition in enumerate(chosen * self.random.randint(1, 2)):
            value = f"{self.name}/{transaction.number}/{index}".encode()
            transaction.records.append((partition, value))
            await session.produce(partition, value)
            if session.is_new and self._late.random() < self._late_share / 2:
                await self._disturb()
        is_commit = self.random.random() < 0.7
        if is_commit:
            # From here on it may be committed, whether anybody says so or not.
            transaction.outcome = Outcome.UNKNOWN
        identity = session.identity
        await session.end(is_commit=is_commit)
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        self._before = identity, chosen[0]

    # -- messages that come late -----------------------------------------------------------------------------------

    async def _send_late(self, transaction: Transaction, identity: Identity) -> None:
        """Right after the end: a record that nobody waits for any more, or one that was acknowledged long ago."""
        if self._late.random() >= self._late_share:
            return
        session = self._session
        partition, value = transaction.records[-1]
        if session.is_new:
            # The sequence went back to 0 with the new epoch; the last one of the old epoch is known from the records.
            sequence = sum(each == partition for each, _ in transaction.records)
        else:
            sequence = session.sequence(partition)
        if transaction.outcome is Outcome.COMMITTED:
            # What comes of it is in the count of the record.
            error = await session.once_produce(identity, partition, sequence - 1, value, purpose=LATE)
            self._count("acknowledged record again", error)
            return
        value = f"{self.name}/{transaction.number}/late".encode()
        error = await session.once_produce(identity, partition, sequence, value, purpose=LATE)
        self._count("record of an aborted transaction", error)
        if session.is_new or error is not None:
            # Without an answer it may still come, and in the first version go for one of the next transaction.
            self.history.late.append(Late(partition=partition, value=value, what="a record of an aborted transaction"))
        if not session.is_new:
            # Nobody knows whether its sequence number is taken now.
            await session.begin()

    async def _disturb(self) -> None:
        """In the middle of a transaction: the coordinator hears again what it was told in the one before."""
        if self._before is None or self._before[0][0] != self._session.identity[0]:
            return
        identity, partition = self._before
        if self._late.random() < 0.5:
            error = await self._session.once_end(identity, is_commit=self._late.random() < 0.5, purpose=LATE)
            self._must_be_refused("EndTxn of an earlier transaction", error, identity)
        else:
            error = await self._session.once_add(identity, [partition], purpose=LATE)
            self._must_be_refused("AddPartitionsToTxn of an earlier transaction", error, identity)

    async def _come_back_from_the_dead(self) -> None:
        """A newer instance takes over, and the older one goes on as if nothing had happened."""
        session = self._session
        if self._before is None:
            return
        identity, partition = session.identity, self._before[1]
        sequence = session.sequence(partition)
        await session.begin()
        kind = self._late.choice(("produce", "add", "end"))
        if kind == "produce":
            value = f"{self.name}/zombie/{self._number}".encode()
            self.history.late.append(Late(partition=partition, value=value, what="a record of a replaced producer"))
            error = await session.once_produce(identity, partition, sequence, value, purpose=LATE)
        elif kind == "add":
            error = await session.once_add(identity, [partition], purpose=LATE)
        else:
            error = await session.once_end(identity, is_commit=True, purpose=LATE)
        self._must_be_refused(f"{kind} of a replaced producer", error, identity)

    def _must_be_refused(self, what: str, error: ErrorCode | None, identity: Identity) -> None:
        self._count(what, error)
        if error is ErrorCode.NONE:
            self.history.contradict(
                "late messages",
                f"{what} was accepted: {self.name} in epoch {identity[1]}, which is {self._session.identity[1]} now",
            )

    def _count(self, what: str, error: ErrorCode | None) -> None:
        answer = "no answer" if error is None else error.name
        self.client.kernel.trace(f"late {what}: {answer}", f"{self.name}/{self._number}")
