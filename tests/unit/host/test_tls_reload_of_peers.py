"""A broker whose own listeners do not encrypt, as a client of the controllers' encrypted listener."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.host.peer_security import PeerSecurity, security_of_controllers
from ottla.host.tls_reload import TlsReload
from ottla.model.config import BrokerConfig
from ottla.tls.authority import new_authority
from tests.unit.host.test_tls_reload import Listener, Loop, Peer, Workers

AUTHORITY = new_authority()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "node.pem"
    path.write_text(AUTHORITY.for_client("node").store)
    return path


def new_config(store: Path) -> BrokerConfig:
    return BrokerConfig.embedded(
        {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
            "listener.name.controller.ssl.keystore.type": "PEM",
            "listener.name.controller.ssl.keystore.location": str(store),
        }
    )


def new_reload(config: BrokerConfig, security: PeerSecurity) -> tuple[TlsReload, Loop]:
    loop: Any = Loop()
    workers: Any = Workers()
    return TlsReload(loop=loop, workers=workers, config=config, listeners={}, peers=[security]), loop


def test_a_new_certificate_of_the_client_side_is_used(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = new_config(store)
    security = security_of_controllers(config, None)
    assert security is not None
    reload, loop = new_reload(config, security)
    before = security.context
    loop.planned()
    assert security.context is before
    # A tool has written half of the new file.
    store.write_text("-----BEGIN")
    loop.planned()
    assert security.context is before
    assert "CONTROLLER as a client stay as they were" in caplog.text
    store.write_text(AUTHORITY.for_client("node").store)
    loop.planned()
    assert security.context is not None
    assert security.context is not before
    reload.stop()


def test_a_broken_store_of_the_client_side_leaves_the_listeners_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look reads the stores of the client's side, not only after a change of a listener."""
    monkeypatch.setattr("ottla.host.tls_reload.check_own_trust", lambda _settings: None)
    listener = Listener("WHOLE", SimpleNamespace(settings=None))
    broken, whole = Peer(ValueError("secret")), Peer("loaded")
    loop = Loop()
    arguments: Any = {
        "loop": loop,
        "workers": Workers(),
        "config": SimpleNamespace(ottla_tls_reload_interval_ms=1000),
        "listeners": {listener.name: listener},
        "peers": [broken, whole],
    }
    reload = TlsReload(**arguments)
    loop.planned()
    assert (len(listener.used), broken.used, whole.used) == (1, [], ["loaded"])
    assert "WHOLE as a client stay as they were. Its stores cannot be read (ValueError)." in caplog.text
    reload.stop()
