"""A broker's session with the controller, with a controller and a clock that the test holds in its hands."""

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
    """Timers that the test fires, and the clock that goes on when it does."""

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
        """Runs the only timer there is; its delay."""
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


class Given:
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
def given() -> Given:
    return Given()


def fenced(is_fenced: bool = True, **fields: Any) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=is_fenced, **fields)


def test_registration_says_who_where_and_with_what(given: Given) -> None:
    assert given.session.register().result() == 42
    assert given.session.epoch == 42
    (request,) = given.controller.registrations
    assert (request.broker_id, request.cluster_id, request.rack) == (3, "cluster", "a")
    assert [
        (listener.name, listener.host, listener.port, listener.security_protocol) for listener in request.listeners
    ] == [("PLAINTEXT", "public", 9, 0)]
    assert request.log_dirs == [DIRECTORY]
    assert request.previous_broker_epoch == 11
    assert "metadata.version" in {feature.name for feature in request.features}


def test_a_registration_counts_once_the_image_has_it(given: Given) -> None:
    # A broker that believed its old image would go on as the leader of what it may have lost.
    given.controller.on_registration = lambda request: None
    registered = given.session.register()
    assert not registered.done
    for changed in (set(), {3}):
        given.session.publish(SimpleNamespace(brokers_changed=changed), given.metadata.image)  # type: ignore[arg-type]
        assert not registered.done
    given.own.incarnation_id = given.controller.registrations[0].incarnation_id
    given.session.publish(SimpleNamespace(brokers_changed={3}), given.metadata.image)  # type: ignore[arg-type]
    assert registered.result() == 42


def test_a_refused_registration_fails(given: Given) -> None:
    given.controller.registration = KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    error = given.session.register().error
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert given.scheduler.pending() == []


def test_a_registration_waits_for_the_end_of_the_process_before(given: Given) -> None:
    given.controller.registration = KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    registered = given.session.register()
    # broker.session.timeout.ms: by then a process that crashed is fenced.
    while given.scheduler.now < 9.0:
        given.scheduler.fire()
        assert not registered.done
    given.controller.registration = BrokerRegistrationResponse(broker_epoch=43)
    given.scheduler.fire()
    assert registered.result() == 43
    assert len({str(request.incarnation_id) for request in given.controller.registrations}) == 1


def test_a_registration_gives_up_when_another_process_lives_on(given: Given) -> None:
    given.controller.registration = KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    registered = given.session.register()
    while not registered.done:
        given.scheduler.fire()
    assert 9.0 < given.scheduler.now < 20.0
    assert isinstance(registered.error, KafkaError)
    assert registered.error.message == "Another process runs as broker 3: each node.id may be used only once."


def test_a_new_controller_gives_the_process_before_a_whole_session_again(given: Given) -> None:
    given.controller.registration = KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    registered = given.session.register()
    while given.scheduler.now < 12.0:
        given.scheduler.fire()
    given.metadata.image.epoch = 2
    while given.scheduler.now < 12.0 + 9.0:
        given.scheduler.fire()
        assert not registered.done
    given.controller.registration = BrokerRegistrationResponse(broker_epoch=43)
    given.scheduler.fire()
    assert registered.result() == 43


def test_a_controller_that_is_away_is_asked_again_within_bounds(given: Given) -> None:
    given.controller.registration = PeerUnreachable("away")
    registered = given.session.register()
    while not registered.done:
        assert given.scheduler.fire() <= 1.0
    assert 60.0 <= given.scheduler.now < 62.0
    assert isinstance(registered.error, PeerUnreachable)


def test_heartbeats_until_the_fence_is_lifted_and_then_at_the_interval(given: Given) -> None:
    given.session.register()
    given.controller.answers = [fenced(), fenced(), fenced(is_fenced=False), fenced(is_fenced=False)]
    unfenced = given.session.unfence()
    assert not unfenced.done
    given.metadata.image.offset = 43
    assert given.scheduler.fire() < 0.1
    assert given.scheduler.fire() < 0.1
    assert unfenced.done
    assert given.controller.heartbeats[-1].current_metadata_offset == 43
    assert given.controller.heartbeats[-1].broker_epoch == 42
    given.session.offline_directories.add(DIRECTORY)
    assert given.scheduler.fire() == 2.0
    assert given.controller.heartbeats[-1].offline_log_dirs == [DIRECTORY]
    assert len(given.scheduler.pending()) == 1


def test_a_broker_is_not_unfenced_before_its_own_image_says_so(given: Given) -> None:
    given.session.register()
    given.own.fenced = True
    given.controller.answers = [fenced(is_fenced=False), fenced(is_fenced=False)]
    unfenced = given.session.unfence()
    assert not unfenced.done
    given.own.fenced = False
    given.scheduler.fire()
    assert unfenced.done


def test_a_broker_notices_that_another_process_took_its_place(given: Given) -> None:
    ends: list[str] = []
    given.session.on_superseded = lambda: ends.append("end")
    given.session.register()
    given.own.incarnation_id = Uuid.random(random.Random(9))
    delta = SimpleNamespace(brokers_changed={3})
    given.session.publish(delta, given.metadata.image)  # type: ignore[arg-type]
    # An older registration is that of the run before.
    assert ends == []
    given.own.broker_epoch = 50
    given.session.publish(delta, given.metadata.image)  # type: ignore[arg-type]
    assert ends == ["end"]


def test_a_failed_heartbeat_is_not_the_last(given: Given) -> None:
    given.controller.answers = [fenced(is_fenced=False), KafkaError(ErrorCode.NOT_CONTROLLER), fenced(is_fenced=False)]
    given.session.unfence()
    given.scheduler.fire()
    given.scheduler.fire()
    assert len(given.controller.heartbeats) == 3


def test_directories_are_told_when_the_cluster_learns_of_them(given: Given) -> None:
    given.own.directories = ()
    given.features.metadata_version = 14
    given.session.register()
    given.controller.answers = [fenced(is_fenced=False)] * 4
    given.session.unfence()
    given.scheduler.fire()
    assert len(given.controller.registrations) == 1
    given.features.metadata_version = 17
    given.scheduler.fire()
    first, second = given.controller.registrations
    assert second.incarnation_id == first.incarnation_id
    assert second.log_dirs == [DIRECTORY]
    given.own.directories = (DIRECTORY,)
    given.scheduler.fire()
    assert len(given.controller.registrations) == 2


def test_leaving_waits_until_the_controller_agrees(given: Given) -> None:
    given.controller.answers = [fenced(is_fenced=False), fenced(), fenced(should_shut_down=True)]
    given.session.unfence()
    left = given.session.leave()
    assert not left.done
    assert given.scheduler.fire() < 0.1
    assert left.done
    assert [request.want_shut_down for request in given.controller.heartbeats] == [False, True, True]
    assert given.scheduler.pending() == []


def test_the_last_broker_is_fenced_at_once(given: Given) -> None:
    given.controller.answers = [fenced(is_fenced=False), fenced(should_shut_down=True)]
    given.session.unfence()
    assert given.session.leave(is_last=True).done
    last = given.controller.heartbeats[-1]
    assert (last.want_shut_down, last.want_fence) == (True, True)


def test_leaving_without_a_controller_does_not_wait_for_ever(given: Given) -> None:
    given.controller.answers = [fenced(is_fenced=False), KafkaError(ErrorCode.NOT_CONTROLLER)]
    given.session.unfence()
    assert given.session.leave().done


def test_who_was_not_answered_for_half_a_session_may_be_replaced(given: Given) -> None:
    """The controller gives no more to a broker whose connection was closed and who does not come back."""
    session, scheduler = given.session, given.scheduler
    assert session.may_be_replaced()
    session.register()
    given.controller.answers = [fenced(is_fenced=False)]
    session.unfence()
    assert not session.may_be_replaced()
    given.controller.answers = [PeerUnreachable("away")] * 100
    while scheduler.now <= 4.5:
        assert not session.may_be_replaced()
        scheduler.fire()
    assert session.may_be_replaced()
    given.controller.answers = [fenced(), fenced(is_fenced=False)]
    scheduler.fire()
    assert session.may_be_replaced(), "it was heard, and is fenced"
    scheduler.fire()
    assert not session.may_be_replaced()


def test_who_takes_leave_may_be_replaced(given: Given) -> None:
    session = given.session
    session.register()
    given.controller.answers = [fenced(is_fenced=False), fenced(is_fenced=False)]
    session.unfence()
    assert not session.may_be_replaced()
    assert not session.leave().done
    assert session.may_be_replaced()


def test_who_hears_that_it_is_fenced_has_been_replaced(given: Given, caplog: pytest.LogCaptureFixture) -> None:
    session, scheduler = given.session, given.scheduler
    session.register()
    given.controller.answers = [fenced(is_fenced=False)]
    session.unfence()
    assert not session.may_be_replaced()
    given.controller.answers = [fenced(), fenced(), fenced(is_fenced=False)]
    scheduler.fire()
    assert session.may_be_replaced(), "though a session is not over"
    scheduler.fire()
    assert session.may_be_replaced()
    scheduler.fire()
    assert not session.may_be_replaced()
    assert caplog.text.count("has fenced this broker") == 1
