"""The controller: decide, append, and answer once committed.

Every change of the cluster's metadata passes through `_submit`, one at a time on the node's one thread:

    decide   on the newest image, uncommitted changes included; gives records and a response
    replay   the records on that image at once, so that the next decision sees them
    append   one batch to the metadata log
    commit   publish the new image, then answer

The newest image is kept apart from the published one: until a batch is committed nobody but the next decision sees
it. Images are immutable, so a refused append rolls back by not taking the new image, and a log that stopped makes the
controller fall back to the last committed one and refuse everything. A decision without records may still have read
uncommitted state, so it is answered only when all that came before it is committed.

Of several controllers one is active: the one that leads the quorum. The others replay what it writes, so that each of
them can go on from the same image the moment it is elected (`activate`). One that leads no longer (`deactivate`)
forgets what was not committed, and whoever waits for it hears NOT_CONTROLLER: the next leader may have the change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ottla.metadata.bootstrap import bootstrap_records, read_bootstrap
from ottla.metadata.controller.admin import AdminOperations
from ottla.metadata.controller.cluster import CONTROLLER_REGISTRATION_LEVEL, own_registration
from ottla.metadata.controller.decision import DECISION_BYTES_MAX, Decision, DecisionContext, Liveness, too_large
from ottla.metadata.controller.effective_config import with_dynamic_layers
from ottla.metadata.controller.features import check_direction
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.follower import MetadataFollower
from ottla.metadata.image import ConfigsImage, MetadataImage
from ottla.metadata.loader import MetadataReplayer
from ottla.metadata.publishers import Publishers
from ottla.metadata.versions import encode_for
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import World
from ottla.quorum.errors import MetadataLogFailedError, NotLeaderError
from ottla.quorum.log import MetadataLog
from ottla.quorum.reconfiguration import KRAFT_VERSION
from ottla.wire.messages.metadata_records import AbortTransactionRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["Caller", "Controller", "ControllerContext"]

R = TypeVar("R")


class Caller(NamedTuple):
    """On whose behalf a request is made, for a controller that has to be told over the network (KIP-590)."""

    principal_type: str
    principal_name: str
    # The client's address as the network has it: 4 or 16 bytes.
    address: bytes
    client_id: str | None


class ControllerContext(NamedTuple):
    """What a handler tells the controller about a request besides its body."""

    api_version: int = 32767
    # Which topics' configurations the caller may see; None allows all.
    may_describe_configs: Callable[[str], bool] | None = None
    # None when the node asks for itself.
    caller: Caller | None = None
    # See `DecisionContext`; None when there is no quota. Of use where the controller is, and not sent to another.
    take_mutations: Callable[[int], object] | None = None


class _Answer(NamedTuple):
    respond: Callable[[], object]
    fail: Callable[[BaseException], object]


class _Pending(NamedTuple):
    delta: MetadataDelta
    image: MetadataImage
    # The decision's own, then those of decisions without records that were taken on top of it. There may be thousands
    # (every consumer of a new cluster asks for the same topic), so they are a list and not closures around each other.
    answers: list[_Answer]


class Controller(AdminOperations):
    """A controller of a cluster, active or waiting for its turn."""

    def __init__(
        self, *, world: World, log: MetadataLog, config: BrokerConfig, cluster_id: str, metadata_log_dir: str
    ) -> None:
        """Loads what the log has committed; raises CorruptMetadataError."""
        self._world = world
        self._log = log
        self.config = config
        self._metadata_log_dir = metadata_log_dir
        self._follower = MetadataFollower(world=world, log=log, config=config, cluster_id=cluster_id)
        self.snapshots = self._follower.snapshots
        self.is_active = False
        # Whether the broker of this process has registered: until then its session is one of a process that is gone.
        self.own_broker_is_registered = False
        # Raises `kraft.version`, which is in the quorum's own records; None where the quorum cannot be reached.
        self._upgrade_quorum: Callable[..., Deferred[None]] | None = None
        self._kraft_version: Callable[[], int] = lambda: 0
        self.liveness = Liveness()
        self._replayer = MetadataReplayer(self.image)
        self._pending: deque[_Pending] = deque()
        self._failure: BaseException | None = None
        self._configs_seen: ConfigsImage | None = None

    @classmethod
    def open(
        cls, *, world: World, log: MetadataLog, config: BrokerConfig, cluster_id: str, metadata_log_dir: str
    ) -> Controller:
        """A controller of a log that this node leads, active at once; it registers itself as well (KIP-919)."""
        controller = cls(world=world, log=log, config=config, cluster_id=cluster_id, metadata_log_dir=metadata_log_dir)
        controller.activate()
        if controller.uncommitted_image.features.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
            controller.register_controller(own_registration(config, world.random))
        return controller

    def activate(self) -> None:
        """This node leads: takes decisions from now on. In an empty log, writes what a new cluster begins with.

        None of it need be committed when this returns; whatever is decided after it is answered after it.
        """
        assert not self.is_active, "it is active already"
        self.advance()
        image = self.image
        self._replayer = MetadataReplayer(image, in_transaction=self._follower.in_transaction)
        self._configs_seen = None
        self.is_active = True
        # Heartbeats are soft state. Every active broker gets a full session to say that it is alive; except the one in
        # this process before it has registered: its former process is gone, or it would still hold the directory's
        # lock, so it may register at once. So may those that were fenced or about to leave.
        self.liveness = Liveness()
        alive = {broker_id for broker_id, broker in image.brokers.items() if broker.active}
        if not self.own_broker_is_registered:
            alive.discard(self._log.node_id)
        self.liveness.last_contact_ms.update(dict.fromkeys(alive, self._steady_ms()))
        # When the others were fenced is not known here; with everything until now they have read of it for certain.
        fenced = (broker_id for broker_id, broker in image.brokers.items() if broker.fenced)
        self.liveness.fenced_offsets.update(dict.fromkeys(fenced, image.offset))
        if not image.features.finalized:
            first = bootstrap_records(read_bootstrap(self._world.files, self._metadata_log_dir), self.config)
            self.submit(lambda _context: Decision(first, None))
        elif self._replayer.in_transaction:
            # The leader before us did not end its transaction: nothing of it counts.
            reason = AbortTransactionRecord(reason="the controller that began it is gone")
            self.submit(lambda _context: Decision([reason], None))

    def deactivate(self) -> None:
        """Another leads, or nobody: forgets what is not committed, and says so to whoever waits for it."""
        if self.is_active:
            self.is_active = False
            self._forget(self._not_active())

    def advance(self) -> None:
        """More is committed. Does nothing while active, since what is committed then was replayed before."""
        if not self.is_active:
            self._follower.advance()

    def reload(self, *, is_followed: bool) -> None:
        """The log was replaced (a snapshot, or an end that was cut off); see `MetadataFollower.reload`."""
        assert not self.is_active, "the log of a leader is not replaced"
        self._follower.reload(is_followed=is_followed)

    @property
    def uncommitted_decisions(self) -> int:
        """Decisions that wait to be committed."""
        return len(self._pending)

    @property
    def has_failed(self) -> bool:
        """Whether its log has stopped, so that it refuses everything."""
        return self._failure is not None

    def know_quorum(self, upgrade: Callable[..., Deferred[None]], kraft_version: Callable[[], int]) -> None:
        """The quorum below, which keeps `kraft.version` in its own records."""
        self._upgrade_quorum, self._kraft_version = upgrade, kraft_version

    def update_features(
        self, request: UpdateFeaturesRequest, context: ControllerContext | None = None
    ) -> Deferred[UpdateFeaturesResponse]:
        """All but `kraft.version` is metadata; that one is the quorum's, and comes after the rest."""
        own = [update for update in request.feature_updates if update.feature == KRAFT_VERSION]
        upgrade = self._upgrade_quorum
        if not own or upgrade is None or not self.is_active:
            return super().update_features(request, context)
        answered: Deferred[UpdateFeaturesResponse] = Deferred()
        # All updates of a request are made, or none.
        refused = self._refused_quorum_update(own, upgrade)
        if refused is not None:
            return Deferred.resolved(UpdateFeaturesResponse(error_code=refused.code, error_message=refused.message))
        rest = [update for update in request.feature_updates if update.feature != KRAFT_VERSION]
        decided = super().update_features(
            UpdateFeaturesRequest(
                timeout_ms=request.timeout_ms, feature_updates=rest, validate_only=request.validate_only
            ),
            context,
        )

        def on_decided(outcome: Deferred[UpdateFeaturesResponse]) -> None:
            if outcome.error is not None:
                answered.fail(outcome.error)
                return
            response = outcome.result()
            if response.error_code:
                answered.resolve(response)
                return
            response.results = [*response.results, UpdatableFeatureResult(feature=KRAFT_VERSION)]
            upgraded = upgrade(own[0].max_version_level, validate_only=request.validate_only)
            upgraded.when_done(lambda done: on_upgraded(done, response))

        def on_upgraded(done: Deferred[None], response: UpdateFeaturesResponse) -> None:
            if done.error is None:
                answered.resolve(response)
                return
            error = done.error if isinstance(done.error, KafkaError) else self._refusal(done.error)
            if isinstance(error, KafkaError):
                answered.resolve(UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
            else:
                answered.fail(error)

        decided.when_done(on_decided)
        return answered

    def _refused_quorum_update(
        self, updates: list[FeatureUpdateKey], upgrade: Callable[..., Deferred[None]]
    ) -> KafkaError | None:
        if len(updates) > 1:
            return KafkaError(ErrorCode.INVALID_REQUEST, f"{KRAFT_VERSION} is given more than once")
        (update,) = updates
        wanted = update.max_version_level
        try:
            check_direction(
                KRAFT_VERSION, present=self._kraft_version(), wanted=wanted, upgrade_type=update.upgrade_type
            )
        except KafkaError as error:
            return error
        refused = upgrade(wanted, validate_only=True).error
        return refused if isinstance(refused, KafkaError) else None

    @property
    def publishers(self) -> Publishers:
        """The newest committed image and whoever follows it."""
        return self._follower.publishers

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self.publishers.image

    @property
    def uncommitted_image(self) -> MetadataImage:
        """What the next decision will see."""
        return self._replayer.image if self.is_active else self.image

    @property
    def log(self) -> MetadataLog:
        return self._log

    def broker_connection_closed(self, broker_id: int, connection_id: str) -> None:
        """A connection that a heartbeat came on was closed at its other end."""
        self.liveness.lost(broker_id, now_ms=self._steady_ms(), connection_id=connection_id)

    def next_session_end_ms(self) -> int | None:
        """How long it is until a broker's session runs out if nothing more is heard of it; None when there is none."""
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

        Fails with KafkaError when the decision (or a full disk) refuses the request as a whole, or when this controller
        is not active (any more), and with MetadataLogFailedError when the log stopped and nobody knows whether the
        change will be there after a restart.
        """
        if self._failure is not None:
            return Deferred.failed(self._failure)
        if not self.is_active:
            return Deferred.failed(self._not_active())
        decision_context = self._context(context)
        try:
            decision = decide(decision_context)
        except KafkaError as error:
            return Deferred.failed(error)
        if not decision.records:
            return self._after_pending(decision.response)
        return self._append(decision, decision_context)

    def _context(self, context: ControllerContext | None) -> DecisionContext:
        extra: dict[str, Any] = {}
        if context is not None:
            extra["api_version"] = context.api_version
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
            **extra,
        )

    def _current_config(self) -> BrokerConfig:
        """The configuration with the dynamic values that the next decision has to see."""
        configs = self._replayer.image.configs
        if configs is not self._configs_seen:
            self.config = with_dynamic_layers(self.config, self._replayer.image)
            self._configs_seen = configs
        return self.config

    def _append(self, decision: Decision[R], context: DecisionContext) -> Deferred[R]:
        before = self._replayer.image
        level = before.features.metadata_version
        values = [encode_for(record, level) for record in decision.records]
        size_bytes = sum(map(len, values))
        if size_bytes > DECISION_BYTES_MAX:
            return Deferred.failed(too_large(size_bytes))
        # Replayed before it is written: a record that cannot be replayed must never reach the log.
        delta, image = self._replayer.replay(
            decision.records,
            last_offset=context.next_offset + len(values) - 1,
            epoch=self._log.leader_epoch,
            timestamp_ms=context.now_ms,
        )
        committed = self._log.append(values, timestamp_ms=context.now_ms)
        if committed.error is not None:
            self._replayer.image = before
            return Deferred.failed(self._refusal(committed.error))
        result: Deferred[R] = Deferred()
        answer = _Answer(lambda: result.resolve(decision.response), result.fail)
        self._pending.append(_Pending(delta, image, [answer]))
        self.snapshots.appended(size_bytes)
        committed.when_done(self._on_appended)
        return result

    def _on_appended(self, committed: Deferred[int]) -> None:
        if committed.error is not None:
            if isinstance(committed.error, NotLeaderError):
                self.deactivate()
            else:
                self._stop(committed.error)
            return
        pending = self._pending.popleft()
        assert pending.image.offset == committed.result(), "commits come in the order of the appends"
        self._follower.publish(pending.delta, pending.image)
        for answer in pending.answers:
            answer.respond()

    def _after_pending(self, response: R) -> Deferred[R]:
        if not self._pending:
            return Deferred.resolved(response)
        result: Deferred[R] = Deferred()
        self._pending[-1].answers.append(_Answer(lambda: result.resolve(response), result.fail))
        return result

    def _stop(self, error: BaseException) -> None:
        """The log failed: forget what is not committed, and take no more decisions."""
        if self._failure is not None:
            return
        self._failure = error
        self._forget(error)

    def _forget(self, error: BaseException) -> None:
        self._replayer = MetadataReplayer(self.image)
        pending, self._pending = self._pending, deque()
        for each in pending:
            for answer in each.answers:
                answer.fail(error)

    def _not_active(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._log.node_id} is not the active controller")

    def _refusal(self, error: BaseException) -> BaseException:
        """What a caller hears when nothing was written."""
        if isinstance(error, NotLeaderError):
            return self._not_active()
        if isinstance(error, OSError):
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the metadata log cannot be written: {error.strerror}")
        assert isinstance(error, MetadataLogFailedError), "otherwise the log has stopped"
        return error
