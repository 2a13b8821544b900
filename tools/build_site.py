"""Builds the documentation site with MkDocs.

    python tools/build_site.py [--serve]

Collects the Markdown files of the project in `build/site-source`, in the same places, so that their links to each
other work. Links to files that the site does not have become text. Adds the API pages of `tools/site/api`, whose
content comes from docstrings. The site is in `build/site`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "src/**/*.md", "tests/**/*.md", "bench/**/*.md")
PICTURES = (".svg", ".png", ".json", ".yml")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def main() -> int:
    shutil.rmtree(SOURCE, ignore_errors=True)
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    for path in pages:
        target = SOURCE / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_working_links(path, pages))
    for path in (ROOT / "docs").rglob("*"):
        if path.suffix in PICTURES:
            (SOURCE / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, SOURCE / path.relative_to(ROOT))
    shutil.copytree(ROOT / "tools" / "site" / "api", SOURCE / "api")
    shutil.copy(ROOT / "tools" / "site" / "site.css", SOURCE)
    configuration = SOURCE.with_name("mkdocs.yml")
    text = (ROOT / "tools" / "site" / "mkdocs.yml").read_text().replace("paths: [src]", f"paths: ['{ROOT / 'src'}']")
    configuration.write_text(f"{text}docs_dir: {SOURCE}\nsite_dir: {SITE}\n")
    command = ["serve"] if "--serve" in sys.argv else ["build", "--strict"]
    # The theme prints a notice about the next version of MkDocs at every start.
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    build = [sys.executable, "-m", "mkdocs", *command, "--quiet", "--config-file", str(configuration)]
    return subprocess.run(build, env=variables).returncode


def with_working_links(path: Path, pages: set[Path]) -> str:
    """A link to a directory leads to its README; a link to a file that is no page becomes text."""

    def replaced(link: re.Match[str]) -> str:
        picture, text, target, anchor = link.groups()
        pointed = (path.parent / target).resolve()
        if pointed.is_dir() and pointed / "README.md" in pages:
            return f"{picture}[{text}]({target.rstrip('/')}/README.md{anchor or ''})"
        if pointed in pages or (pointed.suffix in PICTURES and pointed.is_relative_to(ROOT / "docs")):
            return link.group()
        return text

    return LINK.sub(replaced, path.read_text())


if __name__ == "__main__":
    sys.exit(main())
