"""`dump-log --index-sanity-check`: an index either passes, or has complaints."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.cli.logic.dump import DumpOptions, dump_file


@pytest.mark.parametrize(
    ("name", "content", "passes"),
    [
        ("0.index", struct.pack(">iiii", 5, 100, 9, 200), True),
        # The rest of the file was allocated in advance.
        ("0.index", struct.pack(">iiii", 5, 100, 0, 0), True),
        ("0.index", struct.pack(">iiii", 5, 100, 4, 200), False),
        ("0.timeindex", struct.pack(">qiqi", 5, 1, 9, 2), True),
        ("0.timeindex", struct.pack(">qiqi", 5, 1, 4, 2), False),
    ],
)
def test_only_an_index_without_complaints_passes(name: str, content: bytes, passes: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    lines = list(dump_file(str(path), DumpOptions(check_only=True)))
    assert [line.text.endswith("passed sanity check.") for line in lines] == [passes]
