"""A broker's session with the controller; the test drives the controller and the clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import ListenerInfo
from ottla.broker.session import BrokerSession
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.peers import PeerUnreachable

DIRECTORY = Uuid.parse("AAAAAAAAAAAAAAAAAAAAZg")


class Timer:
    def __init__(self, delay_seconds: float, callback: Callable[[], object]) -> None:
        self.delay_seconds = delay_seconds
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Scheduler:
    """Timers that the test fires; firing one advances the clock."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_seconds: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        self.timers.append(Timer(delay_seconds, lambda: callback(*arguments)))
        return self.timers[-1]

    def pending(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def fire(self) -> float:
        """Runs the only pending timer and returns its delay."""
        (timer,) = self.pending()
        self.timers.remove(timer)
        self.now += timer.delay_seconds
        timer.callback()
        return timer.delay_seconds


class Controller:
    def __init__(self) -> None:
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.registration: Any = BrokerRegistrationResponse(broker_epoch=42)
        self.answers: list[Any] = []
        self.on_registration: Callable[[BrokerRegistrationRequest], object] = lambda request: None

    def ask(self, request: BrokerRegistrationRequest | BrokerHeartbeatRequest) -> Deferred[Any]:
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
            self.on_registration(request)
            return _answered(self.registration)
        self.heartbeats.append(request)
        return _answered(self.answers.pop(0))


def _answered(answer: Any) -> Deferred[Any]:
    return Deferred.failed(answer) if isinstance(answer, BaseException) else Deferred.resolved(answer)


class Bench:
    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.controller = Controller()
        self.own = SimpleNamespace(fenced=False, incarnation_id=None, broker_epoch=42, directories=(DIRECTORY,))
        self.features = SimpleNamespace(metadata_version=30)
        self.metadata = SimpleNamespace(
            image=SimpleNamespace(offset=7, epoch=1, brokers={3: self.own}, features=self.features)
        )
        self.session = BrokerSession(
            config=BrokerConfig.embedded({"node.id": "3", "broker.rack": "a", "controller.quorum.voters": "3@h:1"}),
            world=SimpleNamespace(  # type: ignore[arg-type]
                scheduler=self.scheduler, clock=self.scheduler, random=random.Random(1)
            ),
            cluster_id="cluster",
            listeners=[
                ListenerInfo(
                    name="PLAINTEXT",
                    security_protocol="PLAINTEXT",
                    host="",
                    port=1,
                    advertised_host="public",
                    advertised_port=9,
                )
            ],
            directories=[DIRECTORY],
            previous_epoch=11,
            metadata=self.metadata,  # type: ignore[arg-type]
            controller=self.controller,  # type: ignore[arg-type]
        )
        # A controller in the same process: the image has the registration before the answer comes.
        self.controller.on_registration = lambda request: setattr(self.own, "incarnation_id", request.incarnation_id)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def fenced(is_fenced: bool = True, **fields: Any) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=is_fenced, **fields)


def test_registration_says_who_where_and_with_what(bench: Bench) -> None:
    assert bench.session.register().result() == 42
    assert bench.session.epoch == 42
    (request,) = bench.controller.registrations
    assert (request.broker_id, request.cluster_id, request.rack) == (3, "cluster", "a")
    assert [
        (listener.name, listener.host, listener.port, listener.security_protocol) for listener in request.listeners
    ] == [("PLAINTEXT", "public", 9, 0)]
    assert request.log_dirs == [DIRECTORY]
    assert request.previous_broker_epoch == 11
    assert "metadata.version" in {feature.name for feature in request.features}


def test_a_registration_counts_once_the_image_has_it(bench: Bench) -> None:
    # With its old image the broker would continue to lead partitions whose records it may have lost.
    bench.controller.on_registration = lambda request: None
    registered = bench.session.register()
    assert not registered.done
    for changed in (set(), {3}):
        bench.session.publish(SimpleNamespace(brokers_changed=changed), bench.metadata.image)  # type: ignore[arg-type]
        assert not registered.done
    bench.own.incarnation_id = bench.controller.registrations[0].incarnation_id
    bench.session.publish(SimpleNamespace(brokers_changed={3}), bench.metadata.image)  # type: ignore[arg-type]
    assert registered.result() == 42


def test_a_refused_registration_fails(bench: Bench) -> None:
    bench.controller.registration = KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    error = bench.session.register().error
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert bench.scheduler.pending() == []


def test_a_registration_waits_for_the_end_of_the_process_before(bench: Bench) -> None:
    bench.controller.registration = KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    registered = bench.session.register()
    # broker.session.timeout.ms: by then a process that crashed is fenced.
    while bench.scheduler.now < 9.0:
        bench.scheduler.fire()
        assert not registered.done
    bench.controller.registration = BrokerRegistrationResponse(broker_epoch=43)
    bench.scheduler.fire()
    assert registered.result() == 43
    assert len({str(request.incarnation_id) for request in bench.controller.registrations}) == 1


def test_a_registration_gives_up_when_another_process_lives_on(bench: Bench) -> None:
    bench.controller.registration = KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    registered = bench.session.register()
    while not registered.done:
        bench.scheduler.fire()
    assert 9.0 < bench.scheduler.now < 20.0
    assert isinstance(registered.error, KafkaError)
    assert registered.error.message == "Another process runs as broker 3: each node.id may be used only once."


def test_a_new_controller_gives_the_process_before_a_whole_session_again(bench: Bench) -> None:
    bench.controller.registration = KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    registered = bench.session.register()
    while bench.scheduler.now < 12.0:
        bench.scheduler.fire()
    bench.metadata.image.epoch = 2
    while bench.scheduler.now < 12.0 + 9.0:
        bench.scheduler.fire()
        assert not registered.done
    bench.controller.registration = BrokerRegistrationResponse(broker_epoch=43)
    bench.scheduler.fire()
    assert registered.result() == 43


def test_a_controller_that_is_away_is_asked_again_within_bounds(bench: Bench) -> None:
    bench.controller.registration = PeerUnreachable("away")
    registered = bench.session.register()
    while not registered.done:
        assert bench.scheduler.fire() <= 1.0
    assert 60.0 <= bench.scheduler.now < 62.0
    assert isinstance(registered.error, PeerUnreachable)


def test_heartbeats_until_the_fence_is_lifted_and_then_at_the_interval(bench: Bench) -> None:
    bench.session.register()
    bench.controller.answers = [fenced(), fenced(), fenced(is_fenced=False), fenced(is_fenced=False)]
    unfenced = bench.session.unfence()
    assert not unfenced.done
    bench.metadata.image.offset = 43
    assert bench.scheduler.fire() < 0.1
    assert bench.scheduler.fire() < 0.1
    assert unfenced.done
    assert bench.controller.heartbeats[-1].current_metadata_offset == 43
    assert bench.controller.heartbeats[-1].broker_epoch == 42
    bench.session.offline_directories.add(DIRECTORY)
    assert bench.scheduler.fire() == 2.0
    assert bench.controller.heartbeats[-1].offline_log_dirs == [DIRECTORY]
    assert len(bench.scheduler.pending()) == 1


def test_a_broker_is_not_unfenced_before_its_own_image_says_so(bench: Bench) -> None:
    bench.session.register()
    bench.own.fenced = True
    bench.controller.answers = [fenced(is_fenced=False), fenced(is_fenced=False)]
    unfenced = bench.session.unfence()
    assert not unfenced.done
    bench.own.fenced = False
    bench.scheduler.fire()
    assert unfenced.done


def test_a_broker_notices_that_another_process_took_its_place(bench: Bench) -> None:
    ends: list[str] = []
    bench.session.on_superseded = lambda: ends.append("end")
    bench.session.register()
    bench.own.incarnation_id = Uuid.random(random.Random(9))
    delta = SimpleNamespace(brokers_changed={3})
    bench.session.publish(delta, bench.metadata.image)  # type: ignore[arg-type]
    # An older registration belongs to the previous run.
    assert ends == []
    bench.own.broker_epoch = 50
    bench.session.publish(delta, bench.metadata.image)  # type: ignore[arg-type]
    assert ends == ["end"]


def test_a_failed_heartbeat_is_not_the_last(bench: Bench) -> None:
    bench.controller.answers = [fenced(is_fenced=False), KafkaError(ErrorCode.NOT_CONTROLLER), fenced(is_fenced=False)]
    bench.session.unfence()
    bench.scheduler.fire()
    bench.scheduler.fire()
    assert len(bench.controller.heartbeats) == 3


def test_directories_are_told_when_the_cluster_learns_of_them(bench: Bench) -> None:
    bench.own.directories = ()
    bench.features.metadata_version = 14
    bench.session.register()
    bench.controller.answers = [fenced(is_fenced=False)] * 4
    bench.session.unfence()
    bench.scheduler.fire()
    assert len(bench.controller.registrations) == 1
    bench.features.metadata_version = 17
    bench.scheduler.fire()
    first, second = bench.controller.registrations
    assert second.incarnation_id == first.incarnation_id
    assert second.log_dirs == [DIRECTORY]
    bench.own.directories = (DIRECTORY,)
    bench.scheduler.fire()
    assert len(bench.controller.registrations) == 2


def test_leaving_waits_until_the_controller_agrees(bench: Bench) -> None:
    bench.controller.answers = [fenced(is_fenced=False), fenced(), fenced(should_shut_down=True)]
    bench.session.unfence()
    left = bench.session.leave()
    assert not left.done
    assert bench.scheduler.fire() < 0.1
    assert left.done
    assert [request.want_shut_down for request in bench.controller.heartbeats] == [False, True, True]
    assert bench.scheduler.pending() == []


def test_the_last_broker_is_fenced_at_once(bench: Bench) -> None:
    bench.controller.answers = [fenced(is_fenced=False), fenced(should_shut_down=True)]
    bench.session.unfence()
    assert bench.session.leave(is_last=True).done
    last = bench.controller.heartbeats[-1]
    assert (last.want_shut_down, last.want_fence) == (True, True)


def test_leaving_without_a_controller_does_not_wait_for_ever(bench: Bench) -> None:
    bench.controller.answers = [fenced(is_fenced=False), KafkaError(ErrorCode.NOT_CONTROLLER)]
    bench.session.unfence()
    assert bench.session.leave().done


def test_who_was_not_answered_for_half_a_session_may_be_replaced(bench: Bench) -> None:
    """The controller allows half a session to a broker whose connection was closed and that does not come back."""
    session, scheduler = bench.session, bench.scheduler
    assert session.may_be_replaced()
    session.register()
    bench.controller.answers = [fenced(is_fenced=False)]
    session.unfence()
    assert not session.may_be_replaced()
    bench.controller.answers = [PeerUnreachable("away")] * 100
    while scheduler.now <= 4.5:
        assert not session.may_be_replaced()
        scheduler.fire()
    assert session.may_be_replaced()
    bench.controller.answers = [fenced(), fenced(is_fenced=False)]
    scheduler.fire()
    assert session.may_be_replaced(), "it was heard, and is fenced"
    scheduler.fire()
    assert not session.may_be_replaced()


def test_who_takes_leave_may_be_replaced(bench: Bench) -> None:
    session = bench.session
    session.register()
    bench.controller.answers = [fenced(is_fenced=False), fenced(is_fenced=False)]
    session.unfence()
    assert not session.may_be_replaced()
    assert not session.leave().done
    assert session.may_be_replaced()


def test_who_hears_that_it_is_fenced_has_been_replaced(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    session, scheduler = bench.session, bench.scheduler
    session.register()
    bench.controller.answers = [fenced(is_fenced=False)]
    session.unfence()
    assert not session.may_be_replaced()
    bench.controller.answers = [fenced(), fenced(), fenced(is_fenced=False)]
    scheduler.fire()
    assert session.may_be_replaced(), "though a session is not over"
    scheduler.fire()
    assert session.may_be_replaced()
    scheduler.fire()
    assert not session.may_be_replaced()
    assert caplog.text.count("has fenced this broker") == 1
