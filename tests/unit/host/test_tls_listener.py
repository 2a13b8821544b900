"""Which certificates may replace the one of a listener."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.host.stranger_turns import StrangerTurns
from ottla.host.tls_listener import TlsListener
from ottla.model.config import BrokerConfig
from ottla.tls.authority import KeyPair, new_authority
from ottla.tls.errors import TlsError

AUTHORITY = new_authority()


def config(pair: KeyPair, **more: str) -> BrokerConfig:
    return BrokerConfig.embedded(
        {
            "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": pair.key,
            "ssl.keystore.certificate.chain": pair.certificates,
            **{name.replace("_", "."): text for name, text in more.items()},
        }
    )


@pytest.fixture
def listener() -> Iterator[TlsListener]:
    loop = asyncio.new_event_loop()
    own = config(AUTHORITY.for_node("a.example", "b.example", common_name="node"))
    yield TlsListener(loop, own, "PLAINTEXT", StrangerTurns(loop))
    loop.close()


def replace(listener: TlsListener, pair: KeyPair, **more: str) -> None:
    wanted = config(pair, **more)
    assert listener.differs(wanted)
    listener.check(listener.load(wanted), wanted)


def test_names_may_be_added(listener: TlsListener) -> None:
    replace(listener, AUTHORITY.for_node("b.example", "a.example", "c.example", common_name="NODE"))


def test_another_subject_must_be_allowed(listener: TlsListener) -> None:
    pair = AUTHORITY.for_node("a.example", "b.example", common_name="other")
    with pytest.raises(TlsError, match="for CN=other, but the present one is for CN=node"):
        replace(listener, pair)
    replace(listener, pair, ssl_allow_dn_changes="true")


def test_lost_names_must_be_allowed(listener: TlsListener) -> None:
    pair = AUTHORITY.for_node("a.example", common_name="node")
    with pytest.raises(TlsError, match="lacks 1 alternative names"):
        replace(listener, pair)
    replace(listener, pair, ssl_allow_san_changes="true")
