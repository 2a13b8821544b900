"""`docs/README.md` leads to every document, and links between documents lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.files import ROOT, SOURCE, project_files, relative

ENTRANCE = ROOT / "docs" / "README.md"
# Reached through the entrance of their directory.
INDEXED_ELSEWHERE = (SOURCE, ROOT / "docs" / "decisions", ROOT / "docs" / "learn")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")


def test_the_entrance_leads_to_every_document() -> None:
    reached = set(targets(ENTRANCE))
    missing = [
        relative(path)
        for path in documents()
        if path != ENTRANCE
        and path not in reached
        and not any(path.is_relative_to(directory) for directory in INDEXED_ELSEWHERE)
    ]
    assert missing == []


def test_the_list_of_decisions_is_complete() -> None:
    index = ROOT / "docs" / "decisions" / "README.md"
    assert sorted({index, *targets(index)}) == sorted(index.parent.glob("*.md"))


def test_the_list_of_lessons_is_complete() -> None:
    index = ROOT / "docs" / "learn" / "README.md"
    assert index in targets(ENTRANCE)
    assert {index, *targets(index)} >= set(index.parent.glob("*.md"))


def test_links_lead_somewhere() -> None:
    broken = [
        f"{relative(path)}: {link}" for path in documents() for link in links(path) if not target(path, link).exists()
    ]
    assert broken == []


def test_the_site_has_every_document_for_users() -> None:
    """The navigation of `make docs` names files that exist, and every page of docs/."""
    site = ROOT / "tools" / "site"
    text = (site / "mkdocs.yml").read_text()
    named = re.findall(r"^ +- (?:[^\n:]+: )?(\S+\.md)$", text, re.MULTILINE)
    assert [name for name in named if not (ROOT / name).exists() and not (site / name).exists()] == []
    pages = {relative(path) for path in documents() if path.parent in (ROOT / "docs", ROOT / "docs" / "learn")}
    assert sorted(pages - set(named)) == []


def documents() -> list[Path]:
    # The API pages of the site exist within the site only, and so do the targets of their links.
    site = ROOT / "tools" / "site"
    return [path for path in project_files() if path.suffix == ".md" and not path.is_relative_to(site)]


def links(path: Path) -> list[str]:
    return LINK.findall(path.read_text())


def targets(path: Path) -> list[Path]:
    return [target(path, link) for link in links(path)]


def target(path: Path, link: str) -> Path:
    return (path.parent / link).resolve()
