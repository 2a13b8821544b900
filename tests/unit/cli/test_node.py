"""`ottla node` warns of listeners that other machines can reach without credentials."""

from __future__ import annotations

import pytest

from ottla.cli import node
from ottla.model.config import BrokerConfig


class Unstarted:
    def __init__(self, *_: object, **__: object) -> None:
        """Nothing is opened."""

    def run(self) -> None:
        """Ends at once."""


@pytest.mark.parametrize(
    ("hosts", "protocol", "warned"),
    [
        (("127.0.0.1", "localhost"), "PLAINTEXT", []),
        (("0.0.0.0", "127.0.0.1"), "PLAINTEXT", ["CLIENTS://0.0.0.0:9092"]),
        (("", "10.1.2.3"), "PLAINTEXT", ["CLIENTS://:9092, CONTROLLER://10.1.2.3:9093"]),
        (("0.0.0.0", "127.0.0.1"), "SASL_PLAINTEXT", []),
        (("0.0.0.0", "127.0.0.1"), "SSL", ["CLIENTS://0.0.0.0:9092"]),
    ],
)
def test_one_warning_names_the_listeners_without_credentials(
    hosts: tuple[str, str],
    protocol: str,
    warned: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("set_up_logging", "keep_files_private"):
        monkeypatch.setattr(node, name, lambda **_: None)
    monkeypatch.setattr(node, "NodeProcess", Unstarted)
    config = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"CLIENTS://{hosts[0]}:9092,CONTROLLER://{hosts[1]}:9093",
            "advertised.listeners": "CLIENTS://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
        }
    )
    assert node.run_node(config, pid_file=None, on_ready=lambda *_: None) == 0
    assert [record.args for record in caplog.records if record.levelname == "WARNING"] == [(text,) for text in warned]
