"""The GUID of a schema: the MD5 of its content, so that it is the same in every registry."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.registry.core.values import SchemaContent

__all__ = ["guid_of"]


def guid_of(content: SchemaContent) -> str:
    digest = hashlib.md5(content.text.encode(), usedforsecurity=False)
    for reference in content.references:
        digest.update(reference.name.encode() + reference.subject.encode() + struct.pack(">i", reference.version))
    if content.metadata is not None:
        digest.update(b"\1" + b"".join(_metadata(content.metadata)))
    if content.rule_set is not None:
        digest.update(b"\1" + b"".join(_rule_set(content.rule_set)))
    return str(uuid.UUID(bytes=digest.digest()))


def _metadata(metadata: Mapping[str, Any]) -> Iterable[bytes]:
    for path, tags in sorted((metadata.get("tags") or {}).items()):
        yield path.encode()
        yield from (tag.encode() for tag in sorted(tags))
    for key, value in sorted((metadata.get("properties") or {}).items()):
        yield key.encode() + str(value).encode()
    yield from (name.encode() for name in sorted(metadata.get("sensitive") or ()))


def _rule_set(rule_set: Mapping[str, Any]) -> Iterable[bytes]:
    for kind in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rule_set.get(kind) or ():
            yield from _rule(rule)
    if rule_set.get("enableAt") is not None:
        yield str(rule_set["enableAt"]).encode()


def _rule(rule: Mapping[str, Any]) -> Iterable[bytes]:
    for key in ("name", "doc", "kind", "mode", "type"):
        if rule.get(key) is not None:
            yield str(rule[key]).encode()
    yield from (tag.encode() for tag in sorted(rule.get("tags") or ()))
    for key, value in sorted((rule.get("params") or {}).items()):
        yield key.encode() + str(value).encode()
    for key in ("expr", "onSuccess", "onFailure"):
        if rule.get(key) is not None:
            yield str(rule[key]).encode()
    if rule.get("disabled"):
        yield b"\1"
