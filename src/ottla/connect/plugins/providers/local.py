"""Providers of values on this machine. `allowed.paths` and `allowlist.pattern` restrict them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.connect.api import ConfigDefinitions, ConfigProvider, ConfigType, ConnectError, Importance, Settings
from ottla.model.config.parse import parse_properties

__all__ = ["DirectoryConfigProvider", "EnvVarConfigProvider", "FileConfigProvider"]

PACKAGE = "org.apache.kafka.common.config.provider"
# Secrets are lines or keys; larger files are refused.
FILE_BYTES_MAX = 1024 * 1024


class _PathProvider(ConfigProvider):
    settings: Settings

    def __init__(self) -> None:
        self.configure({})

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "allowed.paths",
            ConfigType.LIST,
            default=(),
            importance=Importance.HIGH,
            documentation="Directories and files that may be read; all when it is empty.",
        )

    def configure(self, config: Mapping[str, str]) -> None:
        self.settings = self.config_definitions().parse(config)

    def allowed(self, path: Path) -> Path:
        """The resolved path. Raises ConnectError if it is not allowed."""
        resolved = path.resolve()
        roots = [Path(text).resolve() for text in self.settings.texts("allowed.paths")]
        if roots and not any(resolved == root or root in resolved.parents for root in roots):
            raise ConnectError(f"{path} lies outside of allowed.paths")
        return resolved


class FileConfigProvider(_PathProvider):
    """`${file:/path/to/file.properties:key}`: a line of a file of properties."""

    aliases = (f"{PACKAGE}.FileConfigProvider",)

    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        try:
            properties = parse_properties(_text(self.allowed(Path(path))))
        except OSError as error:
            raise ConnectError(f"{path} cannot be read: {error.strerror}") from error
        return {key: properties[key] for key in keys if key in properties}


class DirectoryConfigProvider(_PathProvider):
    """`${directory:/path/to/directory:file}`: the content of a file, as Kubernetes mounts secrets."""

    aliases = (f"{PACKAGE}.DirectoryConfigProvider",)

    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        contents = {}
        for key in keys:
            if "/" in key or key in ("", ".", ".."):
                raise ConnectError(f"'{key}' is no file of the directory {path}")
            try:
                contents[key] = _text(self.allowed(Path(path) / key))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ConnectError(f"{path}/{key} cannot be read: {error.strerror}") from error
        return contents


class EnvVarConfigProvider(ConfigProvider):
    """`${env:NAME}`: a variable of the worker's environment."""

    aliases = (f"{PACKAGE}.EnvVarConfigProvider",)

    def __init__(self) -> None:
        self.configure({})

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "allowlist.pattern",
            ConfigType.STRING,
            default=".*",
            importance=Importance.LOW,
            documentation="A regular expression for the names that may be read.",
        )

    def configure(self, config: Mapping[str, str]) -> None:
        self._pattern = re.compile(self.config_definitions().parse(config).text("allowlist.pattern"))

    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        if path:
            raise ConnectError("the environment has no paths: write ${env:NAME}")
        return {key: os.environ[key] for key in keys if key in os.environ and self._pattern.fullmatch(key)}


def _text(path: Path) -> str:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ConnectError(f"{path} is larger than {FILE_BYTES_MAX} bytes, too large for a secret")
    return path.read_text()
