"""Properties files of mirrors, for commands that show their flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.failures import Failure
from ottla.cli.session import read_properties, without_references
from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from ottla.mirror.settings import MirrorSettings

__all__ = ["read_mirror_file"]


def read_mirror_file(path: str) -> MirrorSettings:
    from ottla.mirror.settings import MirrorError, read_settings

    try:
        return read_settings(without_references(read_properties(path), path))
    except (MirrorError, ClientError) as error:
        raise Failure(f"{path}: {error}") from error
