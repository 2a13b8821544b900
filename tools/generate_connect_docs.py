"""Writes `docs/connect-connectors.md` from what connectors, converters, transforms and providers declare.

    python tools/generate_connect_docs.py [--check]

With --check nothing is written; the exit status says whether the page is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ottla.connect.api import ConfigDefinition, Connector
from ottla.connect.plugins import FoundPlugin, Plugins
from ottla.model.config.values import format_value

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/connect-connectors.md"

INTRODUCTION = """# Connectors, converters, transforms

This page is generated from the plug-ins' own declarations by `tools/generate_connect_docs.py`. What every connector has
besides (`tasks.max`, `transforms`, `errors.*`, converters) is Kafka Connect's.

A plug-in may be named by its class, with or without the word at its end (`FileStreamSource`), or by any of its other
names: those of Kafka's own classes work as they are.

**Exactly once** means: after any crash of a worker, its Spark driver or its executors, the target holds each record
once (`make faults` kills them at random and compares). A source's records and offsets are one transaction; a sink's
target remembers which batch it has. **At least once** means that records of a batch that was under way may come twice.
"""

CONVERTERS = """## Converters

`key.converter`, `value.converter` and `header.converter`, of the worker or of a connector; their settings have the same
name in front (`value.converter.schemas.enable`). Any connector works with any of them, as far as its values have the
type: `LongConverter` writes whole numbers and nothing else. Headers are bytes throughout; the converter of headers is
used by transforms that make headers.
"""

TRANSFORMS = """## Transforms

`transforms=a,b`, `transforms.a.type=...`, and for some records only `transforms.a.predicate=p`, `transforms.a.negate`.
They are DataFrame expressions with the results of Kafka's own transforms, compared in 172 cases. All records of a batch
have one type: a transform behind a predicate that changes the type of some makes the field optional for all, and where
two types cannot be one (text and a number) the configuration is refused. Formats of times are Spark's, which are those
of `SimpleDateFormat` for all common letters.
"""

PREDICATES = """## Predicates

`predicates=p`, `predicates.p.type=...`.
"""

PROVIDERS = """## Secrets

`${file:/path/file.properties:key}`, `${env:NAME}` and `${dir:/path:file}` work in every configuration without being
declared. They are filled in when a task starts or a configuration is checked, and shown nowhere: REST answers with the
reference, traces and logs have stars in the value's place. `config.providers` of the worker sets more.
"""


def main() -> int:
    page = "\n".join(_lines()) + "\n"
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text() == page:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is out of date: run tools/generate_connect_docs.py")
        return 1
    PAGE.write_text(page)
    return 0


def _lines() -> Iterator[str]:
    plugins = Plugins()
    by_kind: dict[str, list[FoundPlugin]] = {}
    for found in plugins.all():
        by_kind.setdefault(found.kind, []).append(found)
    assert not plugins.failures, plugins.failures
    yield INTRODUCTION
    yield "| connector | | claim | holds as long as |"
    yield "|---|---|---|---|"
    for kind in ("source", "sink"):
        for found in by_kind[kind]:
            assert issubclass(found.plugin, Connector)
            claim = found.plugin.claim
            yield f"| [{_name(found)}](#{_name(found).lower()}) | {kind} | {claim.delivery.value} | {claim.condition} |"
    yield ""
    for kind in ("source", "sink"):
        for found in by_kind[kind]:
            yield from _chapter(found, "##")
    for text, kind in (
        (CONVERTERS, "converter"),
        (TRANSFORMS, "transformation"),
        (PREDICATES, "predicate"),
        (PROVIDERS, "configprovider"),
    ):
        yield text
        for found in by_kind[kind]:
            yield from _chapter(found, "###")


def _chapter(found: FoundPlugin, heading: str) -> Iterator[str]:
    yield f"{heading} {_name(found)}"
    yield ""
    yield (found.plugin.__doc__ or "").strip().splitlines()[0]
    names = [f"`{each}`" for each in found.plugin.aliases]
    if names:
        yield ""
        yield "Also: " + ", ".join(names)
    yield ""
    definitions = list(found.plugin.config_definitions())
    if definitions:
        yield from _table(definitions)
        yield ""


def _table(definitions: Iterable[ConfigDefinition]) -> Iterator[str]:
    yield "| setting | type | default | |"
    yield "|---|---|---|---|"
    for each in definitions:
        default = "required" if each.is_required else format_value(each.default) or ""  # type: ignore[arg-type]
        shown = f"`{default}`" if default not in ("", "required") else default
        text = each.documentation.replace("|", "\\|")
        yield f"| `{each.name}` | {each.type.name.lower()} | {shown} | {text} |"


def _name(found: FoundPlugin) -> str:
    return found.plugin.__qualname__


if __name__ == "__main__":
    sys.exit(main())
