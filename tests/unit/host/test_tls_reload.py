"""New certificates of a running node: a store that breaks its reader does not stop the others, nor later looks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.host.tls_reload import TlsReload
from ottla.model.deferred import Deferred
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
    """Reads its store when it is told to, with this outcome."""

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
