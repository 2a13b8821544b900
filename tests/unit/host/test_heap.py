"""All threads of a process allocate from one heap, and the memory of a thread's large buffers is used again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# glibc describes its heaps as XML; the option cannot be undone, so a process of its own sets it.
PROGRAM = """
import ctypes, sys, threading
if sys.argv[1] == "one":
    from ottla.host.heap import share_one_heap
    assert share_one_heap()
together = threading.Barrier(8)
def allocate():
    together.wait()
    # Both beyond the largest block of Python's own allocator, and below the size that is mapped for itself.
    pieces = [bytearray(64_000) for _ in range(20)]
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
output = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, output)
library.fflush(output)
"""


def heaps(how: str) -> int:
    process = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return process.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the option is one of glibc")
def test_threads_share_one_heap() -> None:
    assert heaps("one") == 1
    assert heaps("many") > 1
