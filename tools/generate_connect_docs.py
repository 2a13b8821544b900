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

This page is generated from the declarations of the plug-ins by `tools/generate_connect_docs.py`. The settings that
every connector has (`tasks.max`, `transforms`, `errors.*`, converters) are Kafka Connect's.

A configuration names a plug-in by its class, with or without the word for its kind (`FileStreamSource`), or by an
alias: the names of Kafka's own classes work.

**Exactly once** means: after any crash of a worker, its Spark driver or its executors, the target holds each record
once (`make faults` kills them at random and compares). A source writes records and offsets in one transaction; a sink's
target stores the identity of its last batch. **At least once** means that the records of a batch that was in progress
at a crash may come twice.
"""

CONVERTERS = """## Converters

`key.converter`, `value.converter` and `header.converter`, of the worker or of a connector; their settings have the same
name as prefix (`value.converter.schemas.enable`). Every connector works with every converter of the right type:
`LongConverter` writes whole numbers only. Headers are bytes; only transforms that make headers use the header
converter.
"""

TRANSFORMS = """## Transforms

`transforms=a,b`, `transforms.a.type=...`, and for some records only `transforms.a.predicate=p`, `transforms.a.negate`.
They are DataFrame expressions with the results of Kafka's own transforms, compared in 172 cases. All records of a batch
have one type: a transform with a predicate that changes the type of some records makes the field optional for all. If
two types cannot be merged (text and a number), the configuration is refused. Formats of times are Spark's, which are
those of `SimpleDateFormat` for all common letters.
"""

PREDICATES = """## Predicates

`predicates=p`, `predicates.p.type=...`.
"""

PROVIDERS = """## Secrets

A worker's own file may use `${file:/path/file.properties:key}`, `${env:NAME}` and `${dir:/path:file}`. A reference in a
connector's configuration reads files of the worker's machine, so connectors may use only the providers that
`config.providers` of the worker names (`config.providers=file,env`), within their limits
(`config.providers.file.param.allowed.paths=/run/secrets`). They are resolved when a task starts or a configuration is
validated, and are never shown: REST answers with the reference, traces and logs have stars instead of the value.
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
    for plugin_info in plugins.all():
        by_kind.setdefault(plugin_info.kind, []).append(plugin_info)
    assert not plugins.failures, plugins.failures
    yield INTRODUCTION
    yield "| connector | | claim | holds as long as |"
    yield "|---|---|---|---|"
    for kind in ("source", "sink"):
        for plugin_info in by_kind[kind]:
            assert issubclass(plugin_info.plugin, Connector)
            claim = plugin_info.plugin.claim
            yield (
                f"| [{_name(plugin_info)}](#{_name(plugin_info).lower()}) "
                f"| {kind} | {claim.delivery.value} | {claim.condition} |"
            )
    yield ""
    for kind in ("source", "sink"):
        for plugin_info in by_kind[kind]:
            yield from _chapter(plugin_info, "##")
    for text, kind in (
        (CONVERTERS, "converter"),
        (TRANSFORMS, "transformation"),
        (PREDICATES, "predicate"),
        (PROVIDERS, "configprovider"),
    ):
        yield text
        for plugin_info in by_kind[kind]:
            yield from _chapter(plugin_info, "###")


def _chapter(plugin_info: FoundPlugin, heading: str) -> Iterator[str]:
    yield f"{heading} {_name(plugin_info)}"
    yield ""
    yield (plugin_info.plugin.__doc__ or "").strip().splitlines()[0]
    names = [f"`{alias}`" for alias in plugin_info.plugin.aliases]
    if names:
        yield ""
        yield "Also: " + ", ".join(names)
    yield ""
    definitions = list(plugin_info.plugin.config_definitions())
    if definitions:
        yield from _table(definitions)
        yield ""


def _table(definitions: Iterable[ConfigDefinition]) -> Iterator[str]:
    yield "| setting | type | default | |"
    yield "|---|---|---|---|"
    for definition in definitions:
        default = "required" if definition.is_required else format_value(definition.default) or ""  # type: ignore[arg-type]
        default_text = f"`{default}`" if default not in ("", "required") else default
        text = definition.documentation.replace("|", "\\|")
        yield f"| `{definition.name}` | {definition.type.name.lower()} | {default_text} | {text} |"


def _name(plugin_info: FoundPlugin) -> str:
    return plugin_info.plugin.__qualname__


if __name__ == "__main__":
    sys.exit(main())
