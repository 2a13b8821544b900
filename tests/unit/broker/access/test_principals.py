"""`principal.builder.class`: a Python callable names the principals of connections."""

from __future__ import annotations

import pytest

from ottla.broker.authorization import configured_principal_builder
from ottla.broker.context import ANONYMOUS, ConnectionContext, ListenerInfo, Principal
from ottla.model.config import BrokerConfig
from ottla.model.config.keys import ConfigError

LISTENER = ListenerInfo(
    name="CLIENT", security_protocol="PLAINTEXT", host="", port=0, advertised_host="", advertised_port=0
)


def in_upper_case(connection: ConnectionContext, principal: Principal) -> Principal:
    return Principal(principal.type, f"{connection.listener.name}-{principal.name.upper()}")


def configured(name: str) -> ConnectionContext:
    builder = configured_principal_builder(BrokerConfig.embedded({"principal.builder.class": name}))
    return ConnectionContext(listener=LISTENER, client_host="", client_port=0, principal_builder=builder)


def test_kafkas_own_builder_changes_nothing() -> None:
    assert configured_principal_builder(BrokerConfig.embedded({})) is None


def test_the_builder_names_a_connection_and_again_after_its_login() -> None:
    connection = configured(f"{__name__}.in_upper_case")
    assert connection.principal == Principal("User", f"CLIENT-{ANONYMOUS.name}")
    connection.identify(Principal("User", "alice"))
    assert str(connection.principal) == "User:CLIENT-ALICE"


@pytest.mark.parametrize("name", ["com.example.Builder", "Builder", f"{__name__}.LISTENER"])
def test_what_cannot_be_called_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"principal\.builder\.class"):
        configured(name)


def test_a_listener_may_have_a_builder_of_its_own() -> None:
    settings = {"listener.name.client.principal.builder.class": f"{__name__}.in_upper_case"}
    builder = configured_principal_builder(BrokerConfig.embedded(settings))
    other = LISTENER.replaced(name="SERVER")
    client = ConnectionContext(listener=LISTENER, client_host="", client_port=0, principal_builder=builder)
    server = ConnectionContext(listener=other, client_host="", client_port=0, principal_builder=builder)
    assert client.principal == Principal("User", f"CLIENT-{ANONYMOUS.name}")
    assert server.principal == ANONYMOUS
