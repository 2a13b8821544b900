"""The Schema Registry beside the nodes of `ottla up`: a child process, because a node imports nothing slow."""

from __future__ import annotations

from ottla.cli.child_service import ChildService, missing_of

__all__ = ["RegistryChild", "missing_libraries"]


def missing_libraries() -> list[str]:
    """The libraries of the registry that are not installed."""
    return missing_of(["aiohttp", "fastavro", "google.protobuf", "proto_schema_parser", "jsonschema_rs"])


class RegistryChild:
    def __init__(self, port: int) -> None:
        self._port = port
        self._service = ChildService()

    def start(self, bootstrap: str, *, command_config: str | None = None) -> None:
        """The child prints `registry` and its address when it is ready."""
        arguments = ["registry", "--bootstrap-server", bootstrap, "--port", str(self._port), "--ready-word", "registry"]
        arguments += ["--command-config", command_config] if command_config is not None else []
        self._service.start(arguments)

    @property
    def url(self) -> str | None:
        """The URL of the registry; None if the operating system chose the port."""
        return f"http://127.0.0.1:{self._port}" if self._port else None

    def stop(self) -> None:
        self._service.stop()
