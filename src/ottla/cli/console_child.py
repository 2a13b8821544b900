"""The console beside the nodes of `ottla up`: a child process, because the loop of a node must not wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.child_service import ChildService, missing_of

__all__ = ["ConsoleChild", "missing_libraries"]


def missing_libraries() -> list[str]:
    """The libraries of the console that are not installed."""
    return missing_of(["aiohttp"])


class ConsoleChild:
    def __init__(self, port: int) -> None:
        self._port = port
        self._service = ChildService()

    def start(
        self,
        bootstrap: str,
        *,
        command_config: str | None = None,
        registry_url: str | None = None,
        metrics_urls: Sequence[str] = (),
    ) -> None:
        """The child prints `console` and its address when it is ready."""
        arguments = ["console", "--bootstrap-server", bootstrap, "--port", str(self._port), "--ready-word", "console"]
        arguments += ["--command-config", command_config] if command_config is not None else []
        arguments += ["--registry", registry_url] if registry_url is not None else []
        for url in metrics_urls:
            arguments += ["--metrics", url]
        self._service.start(arguments)

    def stop(self) -> None:
        self._service.stop()
