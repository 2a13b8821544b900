"""The base of every plug-in, the errors that plug-ins raise, and providers of configuration values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ottla import __version__
from ottla.connect.api.config_definitions import ConfigDefinitions

__all__ = ["ConfigProvider", "ConnectError", "Plugin", "RetriableError"]


class ConnectError(Exception):
    """Fails a task: its state is FAILED with this error as trace, until its restart policy restarts it."""


class RetriableError(ConnectError):
    """A temporary failure, such as a database that is restarting: the batch is retried."""


class Plugin(ABC):
    """The base of all plug-ins. Configurations name a plug-in by its class, its full name or an alias."""

    version: ClassVar[str] = __version__
    # Other names of the plug-in in configurations, such as the Java class that it stands for.
    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        """The settings of this plug-in, without those that all plug-ins of its kind have."""
        return ConfigDefinitions()


class ConfigProvider(Plugin):
    """Looks up secrets and other values for `${provider:path:key}` in configurations."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings of `config.providers.<name>.param.`, without that prefix."""

    @abstractmethod
    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        """The values of the keys at this path. Missing keys are left out of the result."""
