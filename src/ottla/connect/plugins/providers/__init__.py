"""Where `${provider:path:key}` in configurations is looked up: files, environment variables, directories."""

from __future__ import annotations

from ottla.connect.plugins.providers.local import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider

__all__ = ["DirectoryConfigProvider", "EnvVarConfigProvider", "FileConfigProvider"]
