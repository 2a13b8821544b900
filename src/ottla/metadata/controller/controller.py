"""The controller: decides requests, appends the records, and answers once they are committed.

Every change of the cluster's metadata passes through `submit`, one at a time on the node's one thread:

    decide   on the newest image, with uncommitted changes; returns records and a response
    replay   the records into the next image, so that the next decision sees them
    append   one batch to the metadata log
    commit   publish the image, then answer

The newest image is separate from the published one: only the next decision sees uncommitted changes. Images are
immutable, so a refused append is rolled back by dropping the new image. When the log fails, the controller returns to
the last committed image and refuses every request. A decision without records may have read uncommitted state, so its
answer waits until all earlier decisions are committed.

`ask` is the entry point for requests: it looks up the decision of the request's API (`decisions`) and submits it.

Several controllers form a quorum, and the controller on the quorum's leader is active. The other controllers replay its
records, so that any of them can continue from the same image when it is elected (`activate`). A controller that loses
leadership (`deactivate`) drops its uncommitted decisions and fails their pending answers with NOT_CONTROLLER, because
the next leader may or may not have the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from ottla.decisions import CommitGate, Pending
from ottla.metadata.bootstrap import bootstrap_records, read_bootstrap
from ottla.metadata.controller.brokers import decide_fence_silent_brokers
from ottla.metadata.controller.cluster import CONTROLLER_REGISTRATION_LEVEL, own_registration
from ottla.metadata.controller.decision import (
    DECISION_BYTES_MAX,
    Decision,
    DecisionContext,
    KraftVersion,
    too_large,
)
from ottla.metadata.controller.decisions import DECISIONS
from ottla.metadata.controller.effective_config import with_dynamic_layers
from ottla.metadata.controller.gateway import ControllerContext
from ottla.metadata.controller.liveness import Liveness
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.follower import MetadataFollower
from ottla.metadata.image import ConfigsImage, MetadataImage
from ottla.metadata.invariants import check_image, check_step
from ottla.metadata.loader import MetadataReplayer
from ottla.metadata.publishers import Publishers
from ottla.metadata.record_encoding import encode_all
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import World
from ottla.quorum.errors import MetadataLogFailedError, NotLeaderError
from ottla.quorum.log import MetadataLog
from ottla.wire.message import Message, Request
from ottla.wire.messages.metadata_records import AbortTransactionRecord

__all__ = ["Controller"]

R = TypeVar("R")
M = TypeVar("M", bound=Message)


class _PendingImage(Pending):
    """Records that are appended and not committed, and the image that they lead to."""

    __slots__ = ("delta", "image")

    def __init__(self, delta: MetadataDelta, image: MetadataImage) -> None:
        super().__init__()
        self.delta = delta
        self.image = image
        self.end_offset = image.offset + 1


class Controller:
    """One controller of the cluster, active or standby."""

    def __init__(
        self, *, world: World, log: MetadataLog, config: BrokerConfig, cluster_id: str, metadata_log_dir: str
    ) -> None:
        """Loads the committed log; raises CorruptMetadataError."""
        self._world = world
        self._log = log
        self.config = config
        self._metadata_log_dir = metadata_log_dir
        self._follower = MetadataFollower(world=world, log=log, config=config, cluster_id=cluster_id)
        self.snapshots = self._follower.snapshots
        self.is_active = False
        # Until the broker of this process has registered, the session under its id belongs to an earlier process.
        self._own_broker_is_registered = False
        self._kraft_version: KraftVersion | None = None
        self.liveness = Liveness()
        self._replayer = MetadataReplayer(self.image)
        self._gate: CommitGate[_PendingImage] = CommitGate()
        self._failure: BaseException | None = None
        # The first records of this leadership, until they are appended.
        self._first: list[Message] = []
        self._configs_seen: ConfigsImage | None = None
        self._fencing: Deferred[list[int]] = Deferred.resolved([])

    @classmethod
    def open(
        cls, *, world: World, log: MetadataLog, config: BrokerConfig, cluster_id: str, metadata_log_dir: str
    ) -> Controller:
        """The active controller of a log that this node leads; it also registers itself (KIP-919)."""
        controller = cls(world=world, log=log, config=config, cluster_id=cluster_id, metadata_log_dir=metadata_log_dir)
        controller.activate()
        if controller.uncommitted_image.features.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
            controller.ask(own_registration(config, world.random))
        return controller

    def activate(self) -> None:
        """Makes the controller active: this node leads the quorum. An empty log gets the records of a new cluster.

        Those records may be uncommitted when this returns. Later decisions are answered after their commit. Raises
        OSError if the log cannot be read, and stays inactive then.
        """
        assert not self.is_active, "it is active already"
        self.advance()
        image = self.image
        self._replayer = MetadataReplayer(image, held=self._follower.held)
        self._first = self._first_records()
        self._configs_seen = None
        self.is_active = True
        # Every active broker gets a full session to send its next heartbeat. Brokers that are fenced or shutting down
        # may register again at once, and so may the broker of this process before its first registration: its earlier
        # process has ended, or it would still hold the lock of the data directory.
        active = {broker_id for broker_id, broker in image.brokers.items() if broker.active}
        alive = set(active)
        if not self._own_broker_is_registered:
            alive.discard(self._log.node_id)
        # The offset at which a broker was fenced is not known here. It is at most the end of this image.
        fenced = [broker_id for broker_id, broker in image.brokers.items() if broker.fenced]
        self.liveness = Liveness(alive=alive, fenced=fenced, now_ms=self._steady_ms(), fenced_offset=image.offset)
        for broker_id in active:
            # The former controller may have ended between two portions (`sweeps`).
            self.liveness.leads_all(broker_id, is_certain=False)
        if self._first:
            self._write_first()

    def _first_records(self) -> list[Message]:
        """The records that precede every decision of this leadership."""
        first: list[Message] = []
        if self._replayer.in_transaction:
            # The previous leader did not end its transaction, so none of its records take effect.
            first.append(AbortTransactionRecord(reason="the controller that began it is gone"))
        if not self.image.features.finalized:
            first += bootstrap_records(read_bootstrap(self._world.files, self._metadata_log_dir), self.config)
        return first

    def deactivate(self) -> None:
        """Leadership was lost: drops uncommitted decisions and fails their pending answers with NOT_CONTROLLER."""
        if self.is_active:
            self.is_active = False
            self._drop_uncommitted(self._not_active())

    def advance(self, *, in_turns: bool = False) -> None:
        """The log has committed more; see `MetadataFollower.advance`. An active controller has replayed it before."""
        if not self.is_active:
            self._follower.advance(in_turns=in_turns)

    def advance_with(self, on_more: Callable[[], object]) -> None:
        """Sets the callback for the case that `advance` has left records for a later turn of the loop."""
        self._follower.on_more = on_more

    def reload(self, *, is_followed: bool) -> None:
        """The log was replaced by a snapshot or truncated; see `MetadataFollower.reload`.

        A broker that follows has clients, so its image is loaded over several turns of the loop.
        """
        assert not self.is_active, "the log of a leader is not replaced"
        self._follower.reload(is_followed=is_followed, in_turns=is_followed)

    @property
    def uncommitted_decisions(self) -> int:
        """The number of decisions that wait for their commit."""
        return len(self._gate)

    @property
    def has_failed(self) -> bool:
        """True if the log has failed, so that every request is refused."""
        return self._failure is not None

    def connect_quorum(self, kraft_version: KraftVersion) -> None:
        """Connects the quorum's feature, so that UpdateFeatures can raise `kraft.version`."""
        self._kraft_version = kraft_version

    @property
    def publishers(self) -> Publishers:
        """The newest committed image, and its subscribers."""
        return self._follower.publishers

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self.publishers.image

    @property
    def uncommitted_image(self) -> MetadataImage:
        """The image that the next decision sees."""
        return self._replayer.image if self.is_active else self.image

    @property
    def log(self) -> MetadataLog:
        return self._log

    def invariants(self) -> None:
        """Asserts the rules that hold between two decisions, for tests and the simulator."""
        image = self.image
        check_image(image)
        for pending in self._gate:
            check_step(image, pending.image)
            image = pending.image
        check_image(image)
        assert image.offset < self._log.end_offset, f"offset {image.offset} is not in the log"
        if self.is_active and self._failure is None:
            assert self._replayer.image is image, "the next decision sees the newest image"
            assert image.epoch <= self._log.leader_epoch, f"the image is of epoch {image.epoch}, after this leader's"
        else:
            assert not self._gate, "a controller that decides nothing has no uncommitted decisions"

    # -- requests and decisions ---------------------------------------------------------------------------------------

    def ask(self, request: Request[M], context: ControllerContext | None = None) -> Deferred[M]:
        """Decides a request; see `submit`. The request must be one of `DECISIONS`."""
        decide = DECISIONS[request.API_KEY]
        return self.submit(lambda decision_context: decide(request, decision_context), context)

    def fence_silent_brokers(self, *, held_up_ms: int = 0) -> Deferred[list[int]]:
        """Fences at most one broker whose session has ended, which bounds the cost of a call; resolves with its id.

        A broker with many replicas takes several turns of the loop (`sweeps`). Calls do nothing until it is fenced.
        `held_up_ms` is the delay of this call. The controller could not receive heartbeats in that time, so it is added
        to every session.
        """
        if held_up_ms > 0:
            self.liveness.excuse(held_up_ms)
        if not self._fencing.done:
            return Deferred.resolved([])
        self._fencing = self.submit(decide_fence_silent_brokers)
        return self._fencing

    # -- broker sessions ----------------------------------------------------------------------------------------------

    def own_broker_registered(self) -> None:
        """The broker of this process has registered."""
        self._own_broker_is_registered = True

    def broker_replayed(self, broker_id: int, offset: int) -> None:
        """A broker has replayed the metadata log up to and including this offset."""
        self.liveness.replayed(broker_id, offset)

    def broker_connection_closed(self, broker_id: int, connection_id: str) -> None:
        """The broker's side has closed a connection that heartbeats came on."""
        self.liveness.lost(broker_id, now_ms=self._steady_ms(), connection_id=connection_id)

    def next_session_end_ms(self) -> int | None:
        """Milliseconds until the first session ends without another heartbeat; None if no broker is unfenced."""
        timeout_ms = self._current_config().broker_session_timeout_ms
        ends = [
            self.liveness.session_end_ms(broker.broker_id, session_timeout_ms=timeout_ms)
            for broker in self.uncommitted_image.brokers.values()
            if not broker.fenced
        ]
        return max(min(ends) - self._steady_ms(), 0) if ends else None

    def _steady_ms(self) -> int:
        return round(self._world.clock.monotonic() * 1000)

    def submit(
        self, decide: Callable[[DecisionContext], Decision[R]], context: ControllerContext | None = None
    ) -> Deferred[R]:
        """Takes one decision and resolves with its response after the commit.

        Fails with KafkaError if the decision or a full disk refuses the whole request, or if this controller is not
        active or ceases to be. Fails with MetadataLogFailedError if the log fails; then it is unknown whether the
        change survives a restart.
        """
        if self._failure is not None:
            return Deferred.failed(self._failure)
        if not self.is_active:
            return Deferred.failed(self._not_active())
        if self._first and (refused := self._write_first()) is not None:
            return Deferred.failed(refused)
        decision_context = self._context(context)
        try:
            decision = decide(decision_context)
        except KafkaError as error:
            return Deferred.failed(error)
        if decision.records:
            try:
                pending, committed = self._append(decision, decision_context)
            except (KafkaError, MetadataLogFailedError) as error:
                return Deferred.failed(error)
            if decision.following is not None:
                committed.when_done(self._on_committed)
                return self.submit(decision.following, context)
            if decision.later is not None:
                committed.when_done(self._on_committed)
                return self._submit_later(decision.later, context)
            answer = pending.hold(decision)
            # May be committed already, so the answer waits in the gate before this.
            committed.when_done(self._on_committed)
        else:
            answer = self._gate.answer(decision)
        after_commit = decision.after_commit
        if after_commit is None:
            return answer
        return answer.and_then(lambda _: after_commit()).recover(Exception, self._refuse)

    def _submit_later(
        self, decide: Callable[[DecisionContext], Decision[R]], context: ControllerContext | None
    ) -> Deferred[R]:
        """Submits the next portion of a large decision in a later turn of the loop, as requests that wait do."""
        outcome: Deferred[R] = Deferred()

        def submit() -> None:
            try:
                self.submit(decide, context).pass_to(outcome)
            except Exception as error:  # noqa: BLE001 (whoever asked for the decision gets it)
                outcome.fail(error)

        self._world.scheduler.call_soon(submit)
        return outcome

    def _context(self, context: ControllerContext | None) -> DecisionContext:
        extra: dict[str, Any] = {}
        if context is not None:
            extra["api_version"] = context.api_version
            extra["connection_id"] = context.connection_id
            extra["caller"] = context.caller
            if context.may_describe_configs is not None:
                extra["may_describe_configs"] = context.may_describe_configs
            if context.take_mutations is not None:
                extra["take_mutations"] = context.take_mutations
        return DecisionContext(
            image=self._replayer.image,
            config=self._current_config(),
            now_ms=self._world.clock.now_ms(),
            steady_ms=self._steady_ms(),
            random=self._world.random,
            next_offset=self._log.end_offset,
            liveness=self.liveness,
            kraft_version=self._kraft_version,
            **extra,
        )

    def _current_config(self) -> BrokerConfig:
        """The configuration with the dynamic values of the newest image."""
        configs = self._replayer.image.configs
        if configs is not self._configs_seen:
            self.config = with_dynamic_layers(self.config, self._replayer.image)
            self._configs_seen = configs
        return self.config

    def _write_first(self) -> BaseException | None:
        """Appends the records that come before every decision. If a full disk refuses them, the next one tries again.

        Without them, a decision could be written into the transaction of a former leader, and be dropped with it.
        """
        first, self._first = self._first, []
        written = self.submit(lambda _context: Decision(first, None))
        if written.error is not None:
            self._first = first
        return written.error

    def _append(self, decision: Decision[Any], context: DecisionContext) -> tuple[_PendingImage, Deferred[int]]:
        """Replays and appends the records; the offset comes when they are committed. Raises with nothing changed."""
        before, held = self._replayer.image, self._replayer.held
        level = before.features.metadata_version
        values = encode_all(decision.records, level)
        size_bytes = sum(map(len, values))
        if size_bytes > DECISION_BYTES_MAX:
            raise too_large(size_bytes)
        # Records are replayed before they are appended: a record that cannot be replayed must never reach the log.
        delta, image = self._replayer.replay(
            decision.records,
            last_offset=context.next_offset + len(values) - 1,
            epoch=self._log.leader_epoch,
            timestamp_ms=context.now_ms,
        )
        committed = self._log.append(values, timestamp_ms=context.now_ms)
        if committed.error is not None:
            self._replayer.image, self._replayer.held = before, held
            self._refuse(committed.error)
        pending = _PendingImage(delta, image)
        self._gate.append(pending)
        self.snapshots.appended(size_bytes)
        return pending, committed

    def _on_committed(self, committed: Deferred[int]) -> None:
        if committed.error is not None:
            if isinstance(committed.error, NotLeaderError):
                self.deactivate()
            else:
                self._stop(committed.error)
            return
        pending = self._gate.popleft()
        assert pending.image.offset == committed.result(), "commits come in the order of the appends"
        self._follower.publish(pending.delta, pending.image)
        pending.settle(None)

    def _stop(self, error: BaseException) -> None:
        """The log failed: drops uncommitted decisions and takes no more."""
        if self._failure is not None:
            return
        self._failure = error
        self._drop_uncommitted(error)

    def _drop_uncommitted(self, error: BaseException) -> None:
        self._replayer = MetadataReplayer(self.image)
        self._gate.fail(error)

    def _not_active(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._log.node_id} is not the active controller")

    def _refuse(self, error: BaseException) -> NoReturn:
        """Raises the error of a request whose records were not appended."""
        if isinstance(error, NotLeaderError):
            raise self._not_active() from error
        if isinstance(error, OSError):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log cannot be written: {error.strerror}"
            ) from error
        assert isinstance(error, (KafkaError, MetadataLogFailedError)), "an append fails in one of three ways"
        raise error
