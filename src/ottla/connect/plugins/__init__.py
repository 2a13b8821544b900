"""Discovery of plug-ins, and the plug-ins that come with Ottla."""

from __future__ import annotations

from ottla.connect.plugins.discovery import FoundPlugin, Plugins

__all__ = ["FoundPlugin", "Plugins"]
