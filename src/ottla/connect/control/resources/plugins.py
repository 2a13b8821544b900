"""`/connector-plugins`: the plug-ins of this worker, their settings, and the validation of configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.api import ConnectError, Connector, SinkConnector
from ottla.connect.configuration.connector_config import (
    connector_definitions,
    definition_body,
    validate_connector,
    validation_body,
)
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.local_tasks import Resolver
from ottla.connect.control.request_errors import bad_request, not_found
from ottla.connect.plugins import Plugins

__all__ = ["PluginCatalog"]


class PluginCatalog:
    def __init__(
        self, plugins: Plugins, config: WorkerConfig, *, resolve: Resolver, hide: Callable[[str], str]
    ) -> None:
        self._plugins = plugins
        self._config = config
        self._resolve = resolve
        self._hide = hide

    def all(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return [
            {"class": plugin.name, "type": plugin.kind, "version": plugin.version}
            for plugin in self._plugins.all()
            if not connectors_only or plugin.kind in ("sink", "source")
        ]

    def settings(self, name: str) -> list[dict[str, Any]]:
        """The settings that a plug-in declares; for a connector also those that every connector has."""
        try:
            plugin = self._plugins.any(name)
        except ConnectError as error:
            raise not_found(str(error)) from None
        definitions = plugin.config_definitions()
        if issubclass(plugin, Connector):
            definitions = definitions.joined(connector_definitions(plugin, self._plugins))
        return [definition_body(definition) for definition in definitions if not definition.internal]

    def connector_type(self, class_name: str | None) -> str:
        """`source` or `sink`; `unknown` if this worker has no such plug-in."""
        try:
            connector = self._plugins.connector(class_name or "")
        except ConnectError:
            return "unknown"
        return "sink" if issubclass(connector, SinkConnector) else "source"

    def is_same_connector(self, name: str, other: str) -> bool:
        """True if both names mean the same plug-in; raises ConnectError if a name means none."""
        return self._plugins.connector(name) is self._plugins.connector(other)

    async def validate(self, config: Mapping[str, str | None]) -> dict[str, Any]:
        """Every setting with its errors. Raises ConnectError if there is no such connector."""
        given = {key: text for key, text in config.items() if text is not None}
        resolved = {**config, **self._resolve(given)}
        # Validation may ask databases: it runs in a thread.
        result = await asyncio.to_thread(validate_connector, resolved, self._plugins, self._config.converter_defaults())
        body = validation_body(*result)
        _hide_resolved(body, config, self._hide)
        return body

    async def require_valid(self, config: Mapping[str, str | None]) -> None:
        """Raises RequestError with all errors of the configuration, if there are any."""
        try:
            body = await self.validate(config)
        except ConnectError as error:
            raise bad_request(str(error)) from None
        errors = [error for entry in body["configs"] for error in entry["value"]["errors"]]
        if errors:
            raise bad_request(
                f"The configuration has {len(errors)} error(s):\n"
                + "\n".join(errors)
                + "\nPUT /connector-plugins/<connector>/config/validate lists them setting by setting."
            )


def _hide_resolved(body: dict[str, Any], config: Mapping[str, str | None], hide: Callable[[str], str]) -> None:
    """Shows references instead of the secrets that they stand for, also in error messages."""
    for entry in body["configs"]:
        value = entry["value"]
        value["errors"] = [hide(error) for error in value["errors"]]
        given = config.get(value["name"])
        if given is not None and "${" in given:
            value["value"] = given
