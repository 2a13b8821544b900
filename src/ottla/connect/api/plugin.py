"""The base of every plug-in, the errors that plug-ins raise, and providers of configuration values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ottla.connect.api.config_definitions import ConfigDefinitions

__all__ = ["ConfigProvider", "ConnectError", "Plugin", "RetriableError"]


class ConnectError(Exception):
    """Something that ends a task: it becomes FAILED with this as its trace, and is restarted by policy."""


class RetriableError(ConnectError):
    """Something that may pass by itself, such as a database that is restarting: the batch is tried again."""


class Plugin(ABC):
    """What every plug-in has. A plug-in is found by its class name, by its full name and by its `aliases`."""

    version: ClassVar[str] = "0.1.0"
    # Other names under which configurations may ask for it, such as the Java class it stands for.
    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        """The settings that it knows beside those that every plug-in of its kind has."""
        return ConfigDefinitions()


class ConfigProvider(Plugin):
    """Looks up secrets and other values for `${provider:path:key}` in configurations."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings of `config.providers.<name>.param.`, without that prefix."""

    @abstractmethod
    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        """The values of these keys at this path; a key that is not there is left out."""
