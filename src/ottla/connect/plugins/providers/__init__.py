"""The built-in config providers of `${provider:path:key}`: files, environment variables, directories."""

from __future__ import annotations

from ottla.connect.plugins.providers.local import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider

__all__ = ["DirectoryConfigProvider", "EnvVarConfigProvider", "FileConfigProvider"]
