"""Decisions and replay: a log and its compacted form give the same registry, and no id is given twice."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.registry.core.contexts import context_of
from ottla.registry.core.deletion import decide_delete_subject, decide_delete_version
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.identity import guid_of
from ottla.registry.core.keys import KeyState, decide_new_dek, decide_new_kek
from ottla.registry.core.records import Record
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_config, decide_delete_mode, decide_mode
from ottla.registry.core.values import Reference, SchemaContent
from ottla.registry.node.election import choose_writer
from ottla.serdes.formats import avro_reading

SUBJECTS = st.sampled_from(["a", "b", ":.x:a"])
SCHEMAS = st.sampled_from(['"int"', '"string"', '"bytes"', '{"type":"fixed","name":"f","size":2}', '["null","int"]'])


def register(registry: Registry, subject: str, **body: Any) -> tuple[list[Record], dict[str, Any]]:
    return decide_register(registry.state, registry.schemas, subject, schema_request(body, subject))


class RegistryModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.log: list[tuple[bytes, bytes | None]] = []
        # Context and id to the content that it was given for.
        self.given: dict[tuple[str, int], str] = {}
        self.write(lambda: decide_config(self.registry.state, None, {"compatibility": "NONE"}))

    def write(self, decide: Callable[[], tuple[list[Record], Any]]) -> Any:
        try:
            records, answer = decide()
        except RegistryError:
            return None
        for record in records:
            self.log.append(record.encoded())
            self.registry.state.replay(record)
        return answer

    @rule(subject=SUBJECTS, schema=SCHEMAS)
    def register(self, subject: str, schema: str) -> None:
        answer = self.write(lambda: register(self.registry, subject, schema=schema))
        if answer is not None:
            former = self.given.setdefault((context_of(subject), answer["id"]), answer["guid"])
            assert former == answer["guid"], "an id was given twice"
            assert self.registry.version_by_id(answer["id"], subject).guid == answer["guid"]

    @rule(subject=SUBJECTS, is_permanent=st.booleans())
    def delete_subject(self, subject: str, is_permanent: bool) -> None:
        self.write(lambda: decide_delete_subject(self.registry.state, subject, is_permanent=False))
        if is_permanent:
            self.write(lambda: decide_delete_subject(self.registry.state, subject, is_permanent=True))

    @rule(subject=SUBJECTS, number=st.integers(1, 3), is_permanent=st.booleans())
    def delete_version(self, subject: str, number: int, is_permanent: bool) -> None:
        def decide() -> Any:
            version = self.registry.version(subject, str(number), with_deleted=True)
            return decide_delete_version(self.registry.state, version, is_permanent=is_permanent)

        self.write(decide)

    @rule(subject=SUBJECTS, level=st.sampled_from(["NONE", "FULL_TRANSITIVE"]))
    def configure(self, subject: str, level: str) -> None:
        self.write(lambda: decide_config(self.registry.state, subject, {"compatibility": level}))

    @rule(subject=SUBJECTS, mode=st.sampled_from(["READONLY", "READWRITE"]))
    def set_mode(self, subject: str, mode: str) -> None:
        self.write(lambda: decide_mode(self.registry.state, subject, mode, is_forced=False))

    @rule()
    def restart_from_the_compacted_topic(self) -> None:
        """Tombstones are gone, too: the cleaner removes them after a day."""
        last = {key: index for index, (key, _) in enumerate(self.log)}
        self.log = [
            record for index, record in enumerate(self.log) if last[record[0]] == index and record[1] is not None
        ]
        self.registry = replayed(self.log)

    @invariant()
    def a_restart_changes_nothing(self) -> None:
        assert view(replayed(self.log)) == view(self.registry)


def replayed(log: list[tuple[bytes, bytes | None]]) -> Registry:
    registry = Registry()
    for key, value in log:
        record = Record.decode(key, value)
        assert record is not None
        registry.state.replay(record)
    return registry


def view(registry: Registry) -> Any:
    state = registry.state
    versions = list(state.all_versions())
    ids = {(context, version.id) for version in versions for context in [context_of(version.subject)]}
    return (
        versions,
        {key: sorted(holder.version for holder in state.with_id(*key)) for key in ids},
        {context: state.highest_id(context) for context in state.contexts()},
        state.configs,
        state.modes,
    )


TestRegistryModel = RegistryModel.TestCase
TestRegistryModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("by_version", [False, True])
def test_the_ids_of_deleted_schemas_are_not_used_again(by_version: bool) -> None:
    model = RegistryModel()
    model.register("a", '"int"')
    if by_version:
        model.delete_version("a", 1, False)
        model.delete_version("a", 1, True)
    else:
        model.delete_subject("a", True)
    model.restart_from_the_compacted_topic()
    model.register("b", '"string"')
    assert sorted(number for _, number in model.given) == [1, 2]


def test_a_guid_is_the_md5_of_the_content() -> None:
    text = '"string"'
    expected = str(uuid.UUID(bytes=hashlib.md5(text.encode()).digest()))
    assert guid_of(SchemaContent("AVRO", text)) == expected
    others = [
        SchemaContent("AVRO", text, (Reference("n", "s", 1),)),
        SchemaContent("AVRO", text, metadata={"properties": {"a": "b"}}),
        SchemaContent("AVRO", text, rule_set={"domainRules": [{"name": "r", "type": "CEL"}]}),
    ]
    assert len({expected, *(guid_of(other) for other in others)}) == 4


def test_records_of_other_registries_are_understood() -> None:
    """Older registries leave the type of Avro out; fields and kinds of newer ones are ignored."""
    registry = replayed(
        [
            (
                b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
                b'{"subject":"s","version":1,"id":7,"schema":"\\"int\\"","deleted":false,"new":1}',
            ),
            (b'{"keytype":"NOOP","magic":0}', None),
            (b'{"keytype":"UNKNOWN","magic":9}', b"{}"),
            (b'{"keytype":"SCHEMA","subject":"d","version":1,"magic":1}', b'{"subject":"d"}'),
            (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":1}'),
        ]
    )
    assert registry.state.highest_id(".") == 7
    assert registry.state.subjects() == []
    assert registry.state.subjects(with_deleted=True) == ["s"]
    assert Record.decode(b"no json", None) is None


def test_metadata_and_rules_are_taken_over_from_the_last_version() -> None:
    registry = Registry()
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    records, first = register(registry, "s", schema='"int"', metadata={"properties": {"a": "1"}}, ruleSet=rules)
    registry.state.replay(records[0])
    again, same = register(registry, "s", schema='"int"')
    assert (again, same["id"]) == ([], first["id"])
    records, second = register(registry, "s", schema='["int","string"]')
    assert second["metadata"] == {"properties": {"a": "1"}}
    assert second["ruleSet"] == rules


@pytest.mark.parametrize(
    "rule_set",
    [
        {"domainRules": [{"name": ""}]},
        {"domainRules": [{"name": "a"}, {"name": "a"}]},
        {"domainRules": [{"name": "a", "mode": "UPGRADE"}]},
        {"migrationRules": [{"name": "a", "kind": "OTHER"}]},
    ],
)
def test_wrong_rules_are_refused(rule_set: dict[str, Any]) -> None:
    with pytest.raises(RegistryError) as caught:
        register(Registry(), "s", schema='"int"', ruleSet=rule_set)
    assert caught.value.code == 42210


def test_a_recursive_deletion_of_modes_stays_within_its_context() -> None:
    registry = Registry()
    for owner in (None, "a", "b", ":.x:", ":.x:a"):
        registry.state.replay(decide_mode(registry.state, owner, "READONLY", is_forced=True)[0][0])

    def deleted(owner: str | None) -> tuple[list[Any], Any]:
        records, answer = decide_delete_mode(registry.state, owner, is_recursive=True)
        return [record.key["subject"] for record in records], answer

    assert deleted(None) == ([None, "a", "b"], {"mode": "READONLY"})
    assert deleted(":.x:") == ([":.x:", ":.x:a"], {"mode": "READONLY"})
    # A subject is no context.
    assert deleted("a") == (["a"], {"mode": "READONLY"})
    assert deleted("unknown") == (["unknown"], {})
    with pytest.raises(RegistryError, match="not found"):
        decide_delete_mode(registry.state, "unknown")


def test_the_writer_stays_and_the_lowest_address_comes_first() -> None:
    def member(port: int, **more: Any) -> dict[str, Any]:
        return {"version": 1, "host": "h", "port": port, "master_eligibility": True, "scheme": "http"} | more

    assert choose_writer({"m": member(2), "n": member(1)})[0] == "n"
    assert choose_writer({"m": member(2, leader=True), "n": member(1)})[0] == "m"
    assert choose_writer({"m": member(2), "n": member(1, master_eligibility=False)})[0] == "m"
    assert choose_writer({"n": member(1, master_eligibility=False)}) == (None, None, 0)
    assert choose_writer({"m": member(1), "n": member(1)})[2] == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"schema": '"' + "x" * 1_100_000 + '"'}, 42209),
        ({"schema": "message M {}" + " " * 300_000, "schemaType": "PROTOBUF"}, 42209),
        ({"schema": "[" * 3_000, "schemaType": "JSON"}, 42201),
        ({"schema": '{"not":' * 400 + "{}" + "}" * 400, "schemaType": "JSON"}, None),
        ({"schema": '{"not":' * 900 + "{}" + "}" * 900, "schemaType": "JSON"}, 42201),
        ({"schema": '{"type":"array","items":' * 300 + '"int"' + "}" * 300}, 42201),
        ({"schema": 3}, 42201),
        ({"schema": '"int"', "references": [{"name": "x"}]}, 422),
        ({"schema": '"int"', "references": [{"name": "x", "subject": "none", "version": 1}]}, 42201),
    ],
    ids=range(9),
)
def test_hostile_schemas_are_refused(body: dict[str, Any], code: int | None) -> None:
    """Size and nesting are bounded: one client must not keep the others waiting."""
    registry = Registry()
    if code is None:
        register(registry, "s", **body)
        return
    with pytest.raises(RegistryError) as caught:
        register(registry, "s", **body)
    assert caught.value.code == code


def test_a_hostile_pattern_costs_no_time() -> None:
    registry = Registry()
    old = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    new = {**old, "properties": {"a" * 40 + "!": {"type": "integer"}}}
    records, _ = register(registry, "s", schema=json.dumps(old), schemaType="JSON")
    registry.state.replay(records[0])
    register(registry, "s", schema=json.dumps(new), schemaType="JSON")


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"tags": {"a": [1]}}},
        {"metadata": {"tags": {"a": 1}}},
        {"metadata": {"sensitive": [1]}},
        {"metadata": {"properties": {"a": [1]}}},
        {"ruleSet": {"domainRules": [{"name": "a", "tags": [1]}]}},
        {"ruleSet": {"domainRules": [{"name": "a", "params": "x"}]}},
    ],
)
def test_metadata_and_rules_of_other_types_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(RegistryError) as caught:
        register(Registry(), "s", schema='"int"', **body)
    assert caught.value.status == 422
    defaults = {f"default{name[0].upper()}{name[1:]}": value for name, value in body.items()}
    with pytest.raises(RegistryError) as caught:
        decide_config(Registry().state, None, defaults)
    assert caught.value.status == 422


def test_a_damaged_record_stops_no_replay() -> None:
    value = {"subject": "s", "version": 1, "id": 1, "schema": '"int"', "metadata": "text"}
    registry = Registry()
    registry.state.replay(Record({"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}, value))
    assert registry.state.subjects() == []
    assert Record.decode(b"[" * 100_000, None) is None


def test_combinations_of_combinations_are_refused() -> None:
    def text(leaf: str) -> str:
        parts = {
            f"d{level}": {
                "oneOf": [
                    {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{level + 1}"}}} for name in ("a", "b")
                ]
            }
            for level in range(60)
        }
        return json.dumps({"$ref": "#/$defs/d0", "$defs": {**parts, "d60": {"type": leaf}}})

    registry = Registry()
    for record in register(registry, "s", schema=text("integer"), schemaType="JSON")[0]:
        registry.state.replay(record)
    with pytest.raises(RegistryError, match="too many combinations") as caught:
        register(registry, "s", schema=text("number"), schemaType="JSON")
    assert caught.value.code == 42201


def test_wide_avro_schemas_are_looked_up_and_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    original = avro_reading._Comparison.compare

    def counted(*arguments: Any) -> list[str]:
        nonlocal compared
        compared += 1
        return original(*arguments)

    monkeypatch.setattr(avro_reading._Comparison, "compare", counted)
    registry = Registry()
    for kind in ("int", "long"):
        fields = [{"name": "x", "type": kind}]
        union = [{"type": "record", "name": f"R{number}", "fields": fields} for number in range(1_000)]
        for record in register(registry, "s", schema=json.dumps(union))[0]:
            registry.state.replay(record)
    assert len(registry.state.versions("s")) == 2
    assert compared < 10_000


def test_a_branch_of_a_union_is_found_by_its_alias() -> None:
    registry = Registry()
    new = '["null",{"type":"record","name":"b.New","aliases":["a.Old"],"fields":[]}]'
    for schema in ('["null",{"type":"record","name":"a.Old","fields":[]}]', new):
        for record in register(registry, "s", schema=schema)[0]:
            registry.state.replay(record)
    assert len(registry.state.versions("s")) == 2


@pytest.mark.parametrize("text", ["9" * 5_000, "0", "x"])
def test_a_version_of_many_digits_is_no_version(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        Registry().version("s", text)
    assert caught.value.code == 42202


def test_a_version_number_cannot_replace_another_version() -> None:
    registry = Registry()
    for text in ('"int"', '"long"'):
        for record in register(registry, "a", schema=text)[0]:
            registry.state.replay(record)
    for number in (1, 2, 4):
        with pytest.raises(RegistryError, match=f"The version {number} is not one more than the previous version"):
            register(registry, "a", schema='"double"', version=number)
    records, answer = register(registry, "a", schema='"double"', version=3)
    assert (len(records), answer["version"]) == (1, 3)


def test_versions_of_data_keys_are_numbers_of_32_bits() -> None:
    state = KeyState()
    for record in decide_new_kek(state, {"name": "k", "kmsType": "t", "kmsKeyId": "x"})[0]:
        state.replay(record)
    body = {"subject": "s", "encryptedKeyMaterial": "m"}
    for version in (True, 2**31, -1, "1"):
        with pytest.raises(RegistryError, match=r"a version between 1 and 2\^31-1"):
            decide_new_dek(state, "k", body | {"version": version})
    with pytest.raises(RegistryError) as caught:
        state.dek("k", "s", None, "9" * 5_000)
    assert caught.value.code == 42202
