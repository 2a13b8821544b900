"""The committed pages of the console are those that its sources build."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "console"
BUILT = ROOT / "src" / "ottla" / "console" / "static"
MODULE_LINES_MAX = 500


def sources() -> list[Path]:
    return sorted(path for path in (SOURCES / "src").rglob("*") if path.is_file())


def test_the_manifest_has_the_hash_of_every_source() -> None:
    inputs = [*sources(), SOURCES / "package-lock.json", SOURCES / "build.mjs"]
    expected = {path.relative_to(SOURCES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs}
    manifest = json.loads((BUILT / "manifest.json").read_text())
    assert manifest == expected, "console/ changed since the pages were built: run `make console` and commit both"


def test_a_build_gives_the_committed_files(tmp_path: Path) -> None:
    if shutil.which("node") is None or not (SOURCES / "node_modules" / "esbuild").is_dir():
        pytest.skip("Node or console/node_modules is missing: `make console` installs them")
    environment = {**os.environ, "CONSOLE_TARGET": str(tmp_path)}
    subprocess.run(["node", "build.mjs"], cwd=SOURCES, env=environment, check=True, timeout=120)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_bytes() for path in BUILT.iterdir()}


def test_no_module_turns_text_into_markup() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|unsafeHTML|unsafeSVG|document\.write|javascript:|\beval\("
    )
    names = [path.name for path in sources() if path.suffix == ".ts" and forbidden.search(path.read_text())]
    assert names == []


def test_pages_load_nothing_from_another_host() -> None:
    page = (BUILT / "index.html").read_text()
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["/icon.svg", "/style.css", "/app.js"]
    assert "<script>" not in page
    assert "style=" not in page
    assert not re.search(r"url\([\"']?(?:https?:)?//", (BUILT / "style.css").read_text())


def test_modules_are_small() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in sources() if path.suffix in {".ts", ".css"}}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}
