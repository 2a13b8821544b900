"""Our definitions beside the JSON files from which Apache Kafka 4.4 generates its own classes.

Every message, version, field, type, default and tag is compared, so that no change of a release is overlooked.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import Any

import pytest

from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message, Structure
from ottla.wire.schema import fields_at
from tests.support import jars
from tests.wire.values import MESSAGES, snake_case

OURS = {cls.__name__: cls for cls in MESSAGES}
# The transaction index reads its entries itself (ottla.storage), as one fixed structure.
NOT_A_MESSAGE = {"AbortedTxn"}
# Announced without being read, because of clients that take a broker without it for an old one (see `ApiSpec`).
ANNOUNCED_ONLY = {"Produce": (0, 2)}
LAST = 32767


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Kafka's messages by name."""
    try:
        directory = jars.fetch(jars.CLIENTS_4_4)
    except jars.JarsUnavailableError as error:
        pytest.skip(f"Kafka's definitions: {error}")
    (jar,) = directory.glob("kafka-clients-*.jar")
    definitions_by_name = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$|(?<=[\],}])\s+//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                # An API that was removed keeps its file, without versions.
                if definition["validVersions"] != "none":
                    definitions_by_name[definition["name"]] = definition
    return definitions_by_name


def versions_of(text: str) -> tuple[int, int] | None:
    """`0-3`, `2+`, `4` or `none`."""
    if text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), LAST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def test_both_have_the_same_messages_in_the_same_versions() -> None:
    theirs = {}
    for name, definition in definitions().items():
        if name not in NOT_A_MESSAGE:
            theirs[name] = summary(
                versions_of(definition["validVersions"]), versions_of(definition["flexibleVersions"])
            )
    ours = {name: summary(OURS[name].VERSIONS, (OURS[name].FLEXIBLE_SINCE, LAST)) for name in theirs if name in OURS}
    assert ours == theirs


def summary(valid: tuple[int, int] | None, flexible: tuple[int, int] | None) -> tuple[int, int, int]:
    """First and last version, and the first of them that is flexible."""
    assert valid is not None
    return (*valid, LAST if flexible is None else max(flexible[0], valid[0]))


def test_apis_have_kafkas_numbers_and_listeners() -> None:
    theirs = {}
    for definition in definitions().values():
        if definition["type"] == "request":
            name = definition["name"].removesuffix("Request")
            first, last = versions_of(definition["validVersions"]) or (0, -1)
            last -= bool(definition.get("latestVersionUnstable"))
            announced = (ANNOUNCED_ONLY.get(name, (first, 0))[0], last)
            theirs[name] = (definition["apiKey"], announced, set(definition.get("listeners", ())))
    ours = {
        spec.name: (int(spec.key), (spec.request_min_version, spec.request_max_version), set(spec.listeners))
        for spec in API_SPECS.values()
    }
    assert ours == theirs
    assert {key.value for key in ApiKey} == {number for number, _, _ in theirs.values()}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_field_is_kafkas(cls: type[Message]) -> None:
    definition = definitions().get(cls.__name__)
    if definition is None:
        # A record of a log: its definition is in a jar of the broker.
        return
    shared = {structure["name"]: structure["fields"] for structure in definition.get("commonStructs", ())}
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        compare(cls, definition["fields"], shared, version, cls.__name__)


def compare(
    cls: type[Structure], theirs: list[dict[str, Any]], shared: dict[str, Any], version: int, where: str
) -> None:
    ours = [field for field in fields_at(cls, version) if field.present]
    present = [field for field in theirs if is_in(field.get("versions"), version)]
    assert [field.name for field in ours] == [snake_case(field["name"]) for field in present], (where, version)
    for mine, their in zip(ours, present, strict=True):
        place = f"{where} {mine.name} version {version}"
        kind = their["type"].removeprefix("[]")
        assert mine.is_array == their["type"].startswith("[]"), place
        assert mine.nullable == is_in(their.get("nullableVersions", "none"), version), place
        assert mine.tag == (their.get("tag") if is_in(their.get("taggedVersions", "none"), version) else None), place
        assert mine.ignorable == their.get("ignorable", False), place
        if mine.structure is not None:
            compare(mine.structure, their.get("fields") or shared[kind], shared, version, place)
        else:
            is_classic = their.get("flexibleVersions") == "none" and kind == "string"
            assert mine.kind == ("classic_string" if is_classic else kind), place
        if not mine.is_array and mine.structure is None:
            assert plain(mine.default) == default_of(their, kind), place


def is_in(versions: str | None, version: int) -> bool:
    bounds = (0, LAST) if versions is None else versions_of(versions)
    return bounds is not None and bounds[0] <= version <= bounds[1]


def plain(value: Any) -> Any:
    return None if value == b"" else value


def default_of(field: dict[str, Any], kind: str) -> Any:
    default = field.get("default")
    if default == "null" or kind in ("records", "bytes"):
        return None
    if kind == "uuid":
        return 0
    if kind == "string":
        return default or ""
    if kind == "bool":
        return default in (True, "true")
    if kind == "float64":
        return float(default or 0)
    return int(str(default or 0), 0)
