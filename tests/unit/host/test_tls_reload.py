"""New certificates of a running node: a store that breaks its reader does not stop the others, nor later looks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.host.tls_reload import TlsReload
from ottla.model.config.keys import ConfigError
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.tls.errors import TlsError


class Loop:
    def __init__(self) -> None:
        self.planned: Any = None

    def call_later(self, _seconds: float, run: Any) -> Any:
        self.planned = run
        return SimpleNamespace(cancel=lambda: None)


class Workers:
    def submit(self, run: Any, *arguments: Any) -> Deferred[Any]:
        try:
            return Deferred.resolved(run(*arguments))
        except Exception as error:  # noqa: BLE001 - as the workers of a node do
            failed: Deferred[Any] = Deferred()
            failed.fail(error)
            return failed


class Listener:
    """A listener whose reload has the given outcome."""

    expires = "20301231235959Z"

    def __init__(self, name: str, outcome: Any) -> None:
        self.name = name
        self.outcome = outcome
        self.used: list[Any] = []

    def differs(self, _config: Any) -> bool:
        return True

    def load(self, _config: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def check(self, _loaded: Any, _config: Any) -> None:
        """Any certificate will do."""

    def use(self, loaded: Any) -> None:
        self.used.append(loaded)


@pytest.mark.parametrize("error", [TlsError("no key"), MemoryError(), ValueError("secret"), OSError(5, "disk")])
def test_one_broken_store_leaves_the_others_alone(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    broken, whole = Listener("BROKEN", error), Listener("WHOLE", "new")
    config: Any = SimpleNamespace(ottla_tls_reload_interval_ms=1000)
    loop = Loop()
    listeners: Any = {listener.name: listener for listener in (broken, whole)}
    reload = TlsReload(loop=loop, workers=Workers(), config=config, listeners=listeners, peers=[])  # type: ignore[arg-type]
    loop.planned()
    assert (broken.used, whole.used) == ([], ["new"])
    assert "the listener BROKEN stay as they were" in caplog.text
    # The next look succeeds.
    broken.outcome = "repaired"
    loop.planned()
    assert broken.used == ["repaired"]
    reload.stop()


class LaterWorkers:
    """Keeps what is submitted until the test runs it."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Any, tuple[Any, ...], Deferred[Any]]] = []

    def submit(self, run: Any, *arguments: Any) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        self.submitted.append((run, arguments, deferred))
        return deferred

    def run(self) -> None:
        submitted, self.submitted = self.submitted, []
        for run, arguments, deferred in submitted:
            try:
                deferred.resolve(run(*arguments))
            except Exception as error:  # noqa: BLE001 - as the workers of a node do
                deferred.fail(error)


class Peer:
    """The client's side of a listener."""

    listener_name = "WHOLE"

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.is_loaded = False
        self.used: list[Any] = []

    def load(self, _config: Any) -> Any:
        self.is_loaded = True
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def use(self, loaded: Any) -> None:
        self.used.append(loaded)


def test_stores_are_read_by_a_worker(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.host.tls_reload.check_own_trust", lambda _settings: None)
    config: Any = SimpleNamespace(ottla_tls_reload_interval_ms=1000)
    listener = Listener("WHOLE", SimpleNamespace(settings=None))
    good, bad = Peer("loaded"), Peer(ConfigError("no trust store", key="ssl.truststore.location"))
    workers: Any = LaterWorkers()
    listeners: Any = {"WHOLE": listener}
    peers: Any = [good, bad]
    reload = TlsReload(loop=Loop(), workers=workers, config=config, listeners=listeners, peers=peers)  # type: ignore[arg-type]
    accepted = reload.check(config)
    assert not accepted.done
    workers.run()
    assert accepted.result() is None
    reload.follow(config)
    assert not good.is_loaded
    workers.run()
    assert (len(listener.used), good.used, bad.used) == (1, ["loaded"], [])
    assert "WHOLE as a client stay as they were. no trust store" in caplog.text
    listener.outcome = TlsError("no key")
    refused = reload.check(config)
    workers.run()
    assert isinstance(refused.error, KafkaError)
    assert "WHOLE cannot use this. no key" in refused.error.message
    reload.stop()
