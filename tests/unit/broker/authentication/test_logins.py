"""A listener's logins follow the dynamic settings, also on open connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.authentication.logins import Logins
from ottla.broker.context import ConnectionContext, ListenerInfo
from ottla.broker.statistics import NodeStatistics
from ottla.host.key_documents import read_key_document
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.virtual_world import VirtualWorld

USERS = "listener.name.clients.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
STATIC = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,CLIENTS://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "connections.max.reauth.ms": "5000",
    USERS: f'{MODULE} user_alice="secret";',
}
INFO = ListenerInfo(
    name="CLIENTS",
    security_protocol="SASL_PLAINTEXT",
    host="",
    port=1,
    advertised_host="",
    advertised_port=1,
)


class Client:
    def __init__(self, broker: Any) -> None:
        self._world: VirtualWorld = broker.virtual
        self._gate = Logins(broker, "CLIENTS", fetch=read_key_document).new_gate()
        self._connection = ConnectionContext(listener=INFO, client_host="", client_port=1)

    def log_in(self) -> int:
        """The error code of the login."""
        self._say(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = self._say(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 1)
        if not isinstance(answer, list):
            self._world.scheduler.advance(1_000)
            answer = answer.parts
        return int(decode(SaslAuthenticateResponse, memoryview(b"".join(answer)), 1, 8)[0].error_code)

    def response_ready(self) -> None:
        """The answer is read from the pending one."""

    def gate_opened(self) -> None:
        """There is no connection behind the gate."""

    def _say(self, request: Message, version: int) -> Any:
        frame = b"".join(request_parts(request.API_KEY, version, 7, "me", request))[4:]  # type: ignore[arg-type]
        return self._gate.take(memoryview(frame), self._connection, self)


@pytest.mark.parametrize("users", ['user_bob="secret"', 'user_alice="another"'])
def test_a_user_without_a_password_any_more_cannot_log_in_again(users: str) -> None:
    virtual = VirtualWorld(immediate_workers=True)
    config = BrokerConfig.embedded(STATIC)
    broker = SimpleNamespace(
        config=config, world=virtual.world, virtual=virtual, statistics=NodeStatistics(), metadata=None, audit=None
    )
    client = Client(broker)
    assert client.log_in() == ErrorCode.NONE
    broker.config = config.with_dynamic(dynamic={USERS: f"{MODULE} {users};"})
    assert client.log_in() == ErrorCode.SASL_AUTHENTICATION_FAILED
