"""CRC32C of record batches, without the cost of importing the `crc32c` package.

The package's `__init__` reads its version number through `importlib.metadata`, which costs 45 ms of start-up time and
7 MB of resident memory. Only the extension module in the package is needed, so it is loaded directly. If it is not
found there, the package itself is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import cast

__all__ = ["Buffer", "crc32c"]

Buffer = bytes | bytearray | memoryview


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None and "crc32c" not in sys.modules:
        spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = spec.loader.create_module(spec)
            if module is not None:
                spec.loader.exec_module(module)
                return cast("Callable[[Buffer], int]", module.crc32c)
    from crc32c import crc32c as function

    return cast("Callable[[Buffer], int]", function)


crc32c: Callable[[Buffer], int] = _load()
