"""The gate of a SASL connection: the order of its requests, sessions that end, and logging in again (KIP-368)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from ottla.broker.authentication.gate import SaslGate
from ottla.broker.authentication.settings import SaslSettings
from ottla.broker.context import CloseConnection, ConnectionContext, ListenerInfo
from ottla.broker.pending import PendingResponse
from ottla.broker.statistics import LoginStatistics
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.sasl.exchange import SaslError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

LISTENER = ListenerInfo(
    name="CLIENTS",
    security_protocol="SASL_PLAINTEXT",
    host="",
    port=1,
    advertised_host="",
    advertised_port=1,
)


class FakeWorld:
    """A clock that the test moves, and timers that the test fires."""

    def __init__(self) -> None:
        self.clock = self.scheduler = self
        self.seconds = 1_000.0
        self.timers: list[tuple[float, Any]] = []

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def call_later(self, delay_seconds: float, callback: Any, *arguments: Any) -> None:
        self.timers.append((delay_seconds, lambda: callback(*arguments)))

    def run_timers(self) -> None:
        timers, self.timers = self.timers, []
        for _, run in timers:
            run()


class FakeExchange:
    """Accepts `<user>`, `<user> until <ms>`, and everything else after a word of the test."""

    def __init__(self) -> None:
        self.is_complete, self.user, self.expires_ms, self.has_token = False, "", None, False
        self.groups: tuple[str, ...] = ()

    def evaluate(self, token: bytes) -> Any:
        user, _, expires = token.decode().partition(" until ")
        if user == "refused":
            raise SaslError("no")
        if user == "defect":
            raise RuntimeError("the secret is 42")
        if user == "more":
            return b"challenge"
        self.is_complete, self.user = True, user
        if expires:
            self.expires_ms = int(expires)  # type: ignore[assignment]
        return b"welcome"


class Later(FakeExchange):
    """Every token is checked elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.checked: Deferred[bytes] = Deferred()

    def evaluate(self, token: bytes) -> Deferred[bytes]:
        self.user = token.decode()
        return self.checked

    def finish(self) -> None:
        self.is_complete = True
        self.checked.resolve(b"")


class Client:
    """Sends requests to a gate and reads the responses."""

    def __init__(self, *, reauth_ms: int = 0, exchange: Any = None) -> None:
        self.world = FakeWorld()
        self.counts = LoginStatistics()
        self.connection = ConnectionContext(listener=LISTENER, client_host="", client_port=1)
        self.ready = self.opened = 0
        self.settings = SaslSettings(("PLAIN", "OTHER"), {}, 1_000, 0.1, {"PLAIN": reauth_ms, "OTHER": reauth_ms})
        self.audited: list[dict[str, Any]] = []
        self.gate = SaslGate(
            self.settings,
            lambda _mechanism: exchange or FakeExchange(),
            world=self.world,  # type: ignore[arg-type]
            counts=self.counts,
            audit=self,  # type: ignore[arg-type]
            current_settings=lambda: self.settings,
        )

    def note_login(self, **event: Any) -> None:
        self.audited.append(event)

    def response_ready(self) -> None:
        self.ready += 1

    def gate_opened(self) -> None:
        self.opened += 1

    def say(self, request: Message, version: int) -> Any:
        frame = b"".join(request_parts(request.API_KEY, version, 7, "me", request))[4:]  # type: ignore[arg-type]
        answer = self.gate.take(memoryview(frame), self.connection, self)
        return answer if answer is None or isinstance(answer, PendingResponse) else self.read(answer, request, version)

    def read(self, parts: Any, request: Message, version: int) -> Any:
        spec = API_SPECS[ApiKey(request.API_KEY)]
        position = 9 if spec.response_header_version(version) else 8
        return decode(spec.response_class, memoryview(b"".join(parts)), version, position)[0]

    def handshake(self, mechanism: str = "PLAIN") -> Any:
        return self.say(SaslHandshakeRequest(mechanism=mechanism), 1)

    def token(self, text: str, version: int = 2) -> Any:
        request = SaslAuthenticateRequest(auth_bytes=text.encode())
        answer = self.say(request, version)
        if isinstance(answer, PendingResponse) and self.world.timers:
            assert not answer.ready
            self.world.run_timers()
            assert answer.ready
            return self.read(answer.parts, request, version)
        return answer

    def log_in(self, text: str = "alice") -> Any:
        assert self.handshake().error_code == ErrorCode.NONE
        return self.token(text)

    def ask(self) -> Any:
        return self.say(MetadataRequest(topics=[]), 12)


def test_a_login_without_an_end_removes_the_gate() -> None:
    client = Client()
    assert client.say(ApiVersionsRequest(), 0) is None
    answer = client.log_in()
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    assert client.gate.is_open
    assert client.gate.is_removable
    assert str(client.connection.principal) == "User:alice"
    assert (client.counts.successful, client.counts.failed) == (1, 0)


@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"alice")])
def test_nothing_else_comes_before_the_login(request_: Message) -> None:
    client = Client()
    with pytest.raises(CloseConnection, match="before the login was complete"):
        client.say(request_, 2 if request_.API_KEY == ApiKey.SASL_AUTHENTICATE else 12)
    assert client.counts.failed == 1


@pytest.mark.parametrize(
    ("request_", "version", "reason"),
    [
        (MetadataRequest(topics=[]), 12, "a Metadata request before the login was complete"),
        (SaslHandshakeRequest(mechanism="X" * 100), 1, f"the mechanism '{'X' * 64}' is not offered by this listener"),
    ],
)
def test_who_is_refused_before_the_first_token_is_told_of(request_: Message, version: int, reason: str) -> None:
    client = Client()
    with suppress(CloseConnection):
        client.say(request_, version)
    (event,) = client.audited
    assert (event["reason"], event["principal"], event["is_again"]) == (reason, None, False)


def test_a_malformed_request_before_the_login_is_told_of() -> None:
    client = Client()
    with pytest.raises(CloseConnection):
        client.gate.take(memoryview(b"\x00\x11\x00\x01\x00\x00\x00\x07\x00\x00\x7f\xff"), client.connection, client)
    assert [event["reason"] for event in client.audited] == ["a malformed request before the login"]


def test_a_refused_token_is_answered_later_and_ends_the_connection() -> None:
    client = Client()
    answer = client.log_in("refused")
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "no")
    assert client.counts.failed == 1
    assert not client.gate.is_open
    with pytest.raises(CloseConnection):
        client.token("alice")


def test_a_defect_refuses_the_login_and_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    client = Client()
    assert client.log_in("defect").error_message == "The login could not be checked."
    assert "the check of a login with PLAIN failed" in caplog.text


def test_a_session_ends_and_a_request_after_its_end_closes_the_connection() -> None:
    client = Client(reauth_ms=5_000)
    assert client.log_in().session_lifetime_ms == 5_000
    assert not client.gate.is_removable
    client.world.seconds += 5
    assert client.ask() is None
    client.world.seconds += 0.001
    with pytest.raises(CloseConnection, match="User:alice has expired"):
        client.ask()
    assert client.counts.expired_connections == 1


def test_a_client_logs_in_again_before_or_after_the_end_of_its_session() -> None:
    client = Client(reauth_ms=5_000)
    client.log_in()
    for seconds in (4, 100):
        client.world.seconds += seconds
        assert client.log_in().session_lifetime_ms == 5_000
        assert client.ask() is None
    assert (client.counts.successful, client.counts.successful_again) == (1, 2)


def test_the_time_of_later_logins_is_measured() -> None:
    """From the handshake to the last token; a first login does not count."""
    client = Client(reauth_ms=5_000)
    client.handshake()
    client.world.seconds += 100
    client.token("alice")
    for seconds in (2, 4):
        client.world.seconds += 1
        client.handshake()
        client.world.seconds += seconds
        client.token("alice")
    assert client.counts.relogin_ms_average == pytest.approx(3_000)
    assert client.counts.relogin_ms_max == pytest.approx(4_000)


@pytest.mark.parametrize("exchange", [None, "later"])
def test_bare_tokens_follow_a_handshake_of_version_0(exchange: str | None) -> None:
    later = Later() if exchange else None
    client = Client(exchange=later)
    assert not client.gate.takes_bare_tokens
    client.say(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    assert client.gate.takes_bare_tokens
    pending = client.gate.take(memoryview(b"bo"), client.connection, client)
    if later is not None:
        assert isinstance(pending, PendingResponse)
        assert client.gate.takes_bare_tokens
        later.finish()
    assert client.gate.is_open
    assert not client.gate.takes_bare_tokens
    assert client.connection.principal.name == "bo"


def test_no_other_request_comes_in_the_middle_of_another_login() -> None:
    client = Client(reauth_ms=5_000)
    client.log_in()
    client.handshake()
    with pytest.raises(CloseConnection):
        client.ask()
    assert client.counts.failed_again == 1


def test_the_principal_stays_the_same() -> None:
    client = Client(reauth_ms=5_000)
    client.log_in()
    answer = client.log_in("bob")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals during re-authentication from User:alice: User:bob" in answer.error_message
    assert str(client.connection.principal) == "User:alice"
    assert not client.gate.is_open
    assert client.counts.failed_again == 1


def test_the_mechanism_stays_the_same() -> None:
    client = Client(reauth_ms=5_000)
    client.log_in()
    assert client.handshake("OTHER").error_code == ErrorCode.NONE
    answer = client.token("alice")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "'OTHER' requested by client is not supported for re-authentication of mechanism 'PLAIN'" in (
        answer.error_message
    )


def test_who_logs_in_again_meets_the_settings_of_that_moment() -> None:
    client = Client(reauth_ms=5_000)
    client.log_in()
    client.settings = client.settings._replace(mechanisms=("OTHER",))
    assert client.handshake("PLAIN").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert not client.gate.is_open


def test_logging_in_again_has_an_interval() -> None:
    client = Client(reauth_ms=5_000)
    client.log_in()
    client.log_in()
    client.world.seconds += 0.9
    # The handler behind the gate answers with ILLEGAL_SASL_STATE.
    assert client.handshake() is None
    client.world.seconds += 0.1
    assert client.handshake().error_code == ErrorCode.NONE


@pytest.mark.parametrize(("reauth_ms", "left_ms", "session_ms"), [(0, 700, 700), (500, 700, 500), (900, 700, 700)])
def test_a_credential_that_expires_bounds_the_session(reauth_ms: int, left_ms: int, session_ms: int) -> None:
    client = Client(reauth_ms=reauth_ms)
    answer = client.log_in(f"alice until {client.world.now_ms() + left_ms}")
    assert answer.session_lifetime_ms == session_ms
    client.world.seconds += session_ms / 1000 + 0.001
    with pytest.raises(CloseConnection, match="has expired"):
        client.ask()


def test_clients_that_do_not_know_of_sessions_are_counted_and_end_with_them() -> None:
    client = Client(reauth_ms=5_000)
    client.handshake()
    client.token("alice", version=0)
    assert client.counts.successful_without_end == 1
    client.world.seconds += 6
    with pytest.raises(CloseConnection):
        client.ask()


def test_a_token_that_is_checked_elsewhere_opens_the_gate_when_it_is_checked() -> None:
    exchange = Later()
    client = Client(exchange=exchange)
    client.handshake()
    pending = client.token("alice")
    assert not pending.ready
    with pytest.raises(CloseConnection):
        client.token("alice")
    exchange.finish()
    assert pending.ready
    assert client.gate.is_open
    assert (client.ready, client.opened) == (1, 1)


def test_a_token_that_is_refused_elsewhere_is_answered_later() -> None:
    exchange = Later()
    client = Client(exchange=exchange)
    client.handshake()
    pending = client.token("alice")
    exchange.checked.fail(SaslError("not today"))
    assert not pending.ready
    client.world.run_timers()
    assert pending.ready
    assert "not today" in pending.close_reason
    assert not client.gate.is_open


def test_a_check_that_ends_after_the_connection_changes_nothing() -> None:
    exchange = Later()
    client = Client(exchange=exchange)
    client.handshake()
    client.token("alice")
    client.connection.is_gone = True
    exchange.finish()
    assert (client.ready, client.gate.is_open) == (0, False)
