"""The definitions agree with what Apache Kafka 4.4 announces, and the generated files with the definitions."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message, Structure
from ottla.wire.schema import fields_at, minimum_size
from tests.wire.values import MESSAGES, versions_of

ROOT = Path(__file__).resolve().parent.parent.parent

# The ApiVersions response of a node of Apache Kafka 4.4 that is broker and controller.
ADVERTISED = """
    Produce 0 0-13, Fetch 1 4-18, ListOffsets 2 1-11, Metadata 3 0-13, OffsetCommit 8 2-10, OffsetFetch 9 1-10,
    FindCoordinator 10 0-6, JoinGroup 11 0-9, Heartbeat 12 0-4, LeaveGroup 13 0-5, SyncGroup 14 0-5,
    DescribeGroups 15 0-6, ListGroups 16 0-5, SaslHandshake 17 0-1, ApiVersions 18 0-5, CreateTopics 19 2-7,
    DeleteTopics 20 1-6, DeleteRecords 21 0-2, InitProducerId 22 0-5, OffsetForLeaderEpoch 23 2-4,
    AddPartitionsToTxn 24 0-5, AddOffsetsToTxn 25 0-4, EndTxn 26 0-5, WriteTxnMarkers 27 1-2, TxnOffsetCommit 28 0-6,
    DescribeAcls 29 1-3, CreateAcls 30 1-3, DeleteAcls 31 1-3, DescribeConfigs 32 1-4, AlterConfigs 33 0-2,
    AlterReplicaLogDirs 34 1-2, DescribeLogDirs 35 1-5, SaslAuthenticate 36 0-2, CreatePartitions 37 0-3,
    CreateDelegationToken 38 1-3, RenewDelegationToken 39 1-2, ExpireDelegationToken 40 1-2,
    DescribeDelegationToken 41 1-3, DeleteGroups 42 0-3, ElectLeaders 43 0-2, IncrementalAlterConfigs 44 0-1,
    AlterPartitionReassignments 45 0-1, ListPartitionReassignments 46 0-0, OffsetDelete 47 0-0,
    DescribeClientQuotas 48 0-1, AlterClientQuotas 49 0-1, DescribeUserScramCredentials 50 0-0,
    AlterUserScramCredentials 51 0-0, DescribeQuorum 55 0-2, UpdateFeatures 57 0-2, DescribeCluster 60 0-2,
    DescribeProducers 61 0-0, UnregisterBroker 64 0-0, DescribeTransactions 65 0-0, ListTransactions 66 0-2,
    ConsumerGroupHeartbeat 68 0-1, ConsumerGroupDescribe 69 0-1, ListConfigResources 74 0-1,
    DescribeTopicPartitions 75 0-0, ShareGroupHeartbeat 76 1-1, ShareGroupDescribe 77 1-1, ShareFetch 78 1-2,
    ShareAcknowledge 79 1-2, AddRaftVoter 80 0-1, RemoveRaftVoter 81 0-0, InitializeShareGroupState 83 0-0,
    ReadShareGroupState 84 0-0, WriteShareGroupState 85 0-1, DeleteShareGroupState 86 0-0,
    ReadShareGroupStateSummary 87 0-1, StreamsGroupHeartbeat 88 0-1, StreamsGroupDescribe 89 0-1,
    DescribeShareGroupOffsets 90 0-1, AlterShareGroupOffsets 91 0-0, DeleteShareGroupOffsets 92 0-0,
    StreamsGroupTopologyDescriptionUpdate 93 0-0, UnregisterController 94 0-0
"""
# The APIs of controllers only, of brokers among themselves, or of a broker with a telemetry plugin.
INTERNAL = """
    Vote 52 0-2, BeginQuorumEpoch 53 0-1, EndQuorumEpoch 54 0-1, AlterPartition 56 2-3, Envelope 58 0-0,
    FetchSnapshot 59 0-1, BrokerRegistration 62 0-4, BrokerHeartbeat 63 0-2, AllocateProducerIds 67 0-0,
    ControllerRegistration 70 0-0, GetTelemetrySubscriptions 71 0-0, PushTelemetry 72 0-0,
    AssignReplicasToDirs 73 0-0, UpdateRaftVoter 82 0-0
"""


def rows(text: str) -> list[tuple[str, int, int, int]]:
    parsed = []
    for row in text.replace("\n", " ").split(","):
        name, key, versions = row.split()
        first, last = versions.split("-")
        parsed.append((name, int(key), int(first), int(last)))
    return parsed


def test_every_api_has_kafkas_name_number_and_versions() -> None:
    ours = {(s.name, int(s.key), s.request_min_version, s.request_max_version) for s in API_SPECS.values()}
    assert ours == set(rows(ADVERTISED) + rows(INTERNAL))


def test_only_two_apis_announce_something_else_than_they_read() -> None:
    differing = {
        spec.name: (spec.schema_min_version, spec.schema_max_version)
        for spec in API_SPECS.values()
        if (spec.schema_min_version, spec.schema_max_version) != (spec.request_min_version, spec.request_max_version)
    }
    assert differing == {"Produce": (3, 13), "InitProducerId": (0, 6)}


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_request_and_response_belong_together(key: ApiKey) -> None:
    spec = API_SPECS[key]
    for cls in (spec.request_class, spec.response_class):
        assert key == cls.API_KEY
        assert (spec.schema_min_version, spec.schema_max_version) == cls.VERSIONS
        assert spec.flexible_since == cls.FLEXIBLE_SINCE
    assert spec.request_class.__name__ == f"{spec.name}Request"
    assert spec.response_class.__name__ == f"{spec.name}Response"
    assert spec.name.upper() == key.name.replace("_", "")


def test_all_metadata_records_are_there() -> None:
    from ottla.wire.messages.metadata_records import RECORD_CLASSES

    # 6, 13 and 16 were never released.
    assert sorted(RECORD_CLASSES) == [n for n in range(29) if n not in (6, 13, 16)]


# A tag of Ottla, far from those that Kafka may add.
OWN_TAGS = {"PrincipalWithGroupsData", "DelegationTokenRecord"}


def test_tags_of_a_structure_are_counted_without_a_gap() -> None:
    for cls in MESSAGES:
        for structure in structures_of(cls):
            if structure.__name__ in OWN_TAGS:
                continue
            tags = sorted(f.tag for f in fields_at(structure, cls.VERSIONS[1]) if f.tag is not None)
            assert tags == list(range(len(tags))), structure


def test_no_element_of_an_array_is_empty() -> None:
    """Otherwise a few bytes could claim any number of elements."""
    for cls in MESSAGES:
        for version in versions_of(cls):
            flexible = version >= cls.FLEXIBLE_SINCE
            for structure in structures_of(cls):
                for field in fields_at(structure, version):
                    if field.present and field.is_array and field.structure is not None:
                        assert minimum_size(field.structure, version, flexible=flexible) > 0, (cls, version, field)


def structures_of(cls: type[Structure]) -> list[type[Structure]]:
    structures: list[type[Structure]] = [cls]
    for field in fields_at(cls, 0):
        if field.structure is not None:
            structures += structures_of(field.structure)
    return structures


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_messages", ROOT / "tools/generate_messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_what_the_definitions_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert load_generator().main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "api 1 Example\n\nrequest ExampleRequest  versions 0\n  name string\n    too_deep_by_two\n",
        "data Example  versions 0\n  Name  string\n",
        "data Example  versions 0\n   name  string\n",
        "data Example  versions 0\n  name  [Missing]\n",
        "data Example  version 0\n  name  string\n",
        "api 1 Example\n\nrequest ExampleRequest  versions 0\n  name  string\n",
        "data Example  versions 0\n  a  [Part]\n    x  int8\n  b  [Part]\n    x  int8\n",
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(text: str, tmp_path: Path) -> None:
    generator = load_generator()
    path = tmp_path / "example.txt"
    path.write_text(text)
    with pytest.raises(generator.DefinitionError, match=r"example\.txt"):
        generator.render_module(generator.parse_file(path))


def test_importing_the_api_table_imports_no_message() -> None:
    program = "import sys, ottla.wire.api, ottla.wire.framing; print([n for n in sys.modules if 'wire.messages' in n])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_constructors_do_not_share_lists() -> None:
    for cls in MESSAGES:
        first, second = cls(), cls()
        assert first == second
        assert first is not second
        for name in cls.__slots__:
            value = getattr(first, name)
            if isinstance(value, list | Structure):
                assert value is not getattr(second, name), (cls, name)
                assert isinstance(cls, type(Message))
