"""Change data capture from a real PostgreSQL, reader by reader: snapshot, changes, schemas, restarts."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from ottla.connect.api import ConnectError, ReadLimit, RetriableError, Task
from ottla.connect.plugins.connectors.databases.postgres_source import PostgresReader, PostgresSourceConnector
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.spark

NUMBERS = itertools.count(1)
DATABASES = "ottla.connect.plugins.connectors.databases"


class Capture:
    """A reader with its offsets, as a task would have them."""

    def __init__(self, server: PostgresServer, database: str, **more: str) -> None:
        self._config = {
            "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "ottla",
            "database.dbname": database, "topic.prefix": "p", "slot.name": database, "publication.name": database,
        } | {name.replace("_", "."): text for name, text in more.items()}  # fmt: skip
        self.offsets: dict[str, Any] = {}
        self.reader = self._reader()

    def restart(self) -> None:
        self.reader.close()
        self.reader = self._reader()

    def kill(self) -> None:
        """A new reader continues; the former reader has ended without its cleanup."""
        self.reader._database.close()
        self.reader = self._reader()

    def round(self, *, limit: int = 1000, commit: bool = True) -> list[dict[str, Any]]:
        """The rows of one batch, which two separate readers must read equally."""
        pieces = []
        for partition in self.reader.partitions():
            start = self.offsets.get(str(partition["table"]))
            end = self.reader.latest(partition, start, ReadLimit(records=limit))
            if end is not None and end != start:
                self.reader.schema(partition)
                pieces.append((partition, start, end))
        rows = self._read(pieces)
        assert self._without_time(self._read(pieces)) == self._without_time(rows)
        if commit:
            for partition, _, end in pieces:
                self.offsets[str(partition["table"])] = json.loads(json.dumps(end))
            self._tell(pieces)
        return rows

    def _tell(self, pieces: Sequence[Any]) -> None:
        """Reports the committed positions; an unavailable server gets them later."""
        with contextlib.suppress(RetriableError):
            for partition, _, end in pieces:
                self.reader.committed(partition, end)

    def rounds(self, wanted: int, **more: Any) -> list[dict[str, Any]]:
        """Reads batches until there are at least `wanted` rows."""
        rows: list[dict[str, Any]] = []
        for _ in range(20):
            rows += self.round(**more)
            if len(rows) >= wanted:
                return rows
        raise AssertionError(rows)

    def _read(self, pieces: Sequence[Any]) -> list[dict[str, Any]]:
        reader = self._reader()
        try:
            return [row for piece in pieces for batch in reader.read(*piece) for row in batch.to_pylist()]
        finally:
            reader.close()

    def _reader(self) -> PostgresReader:
        reader = PostgresSourceConnector().reader(Task(connector="c", number=0, config=self._config))
        assert isinstance(reader, PostgresReader)
        return reader

    @staticmethod
    def _without_time(rows: Sequence[dict[str, Any]]) -> list[Any]:
        return [
            (row.get("key"), row["value"] and {**row["value"], "ts_ms": 0, "source": row["value"]["source"]["lsn"]})
            for row in rows
        ]


@pytest.fixture
def name() -> str:
    return f"cdc_{next(NUMBERS)}"


@pytest.fixture
def database(postgres: PostgresServer, name: str) -> Iterator[psycopg.Connection[Any]]:
    with postgres.database(name) as connection:
        yield connection


@pytest.fixture
def capture(postgres: PostgresServer, database: psycopg.Connection[Any], name: str) -> Iterator[Capture]:
    running_capture = Capture(postgres, name)
    yield running_capture
    running_capture.reader.close()
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,)
    )


def short(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """Operation, before and after; None is a tombstone."""
    return [row["value"] and (row["value"]["op"], row["value"]["before"], row["value"]["after"]) for row in rows]


def test_snapshot_in_portions_goes_on_where_it_stopped_and_hands_over(
    capture: Capture, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE t (a int, b text, c text, PRIMARY KEY (b, a))")
    database.execute("CREATE TABLE empty (id int PRIMARY KEY)")
    database.execute("INSERT INTO t SELECT n / 2 + 8, 'b' || n % 2, 'x' FROM generate_series(0, 6) n")
    database.execute("CREATE TABLE keyless (a int)")
    database.execute("INSERT INTO keyless VALUES (1), (2)")
    first = capture.round(limit=3)
    assert sum(row["topic"] == "p.public.keyless" for row in first) == 2
    assert [row["key"] for row in first if "key" in row] == [{"a": a, "b": "b0"} for a in (8, 9, 10)]
    # Between portions: a row that was read changes, one that was not read yet too, and a portion is never committed.
    database.execute("UPDATE t SET c = 'y' WHERE a = 9")
    capture.round(limit=3, commit=False)
    capture.restart()
    later_rows = capture.rounds(6, limit=3)
    snapshot = [row["key"]["b"] + str(row["key"]["a"]) for row in later_rows if row["value"]["op"] == "r"]
    assert snapshot == ["b011", "b18", "b19", "b110"]
    assert [row["value"]["after"]["c"] for row in later_rows] == ["x", "x", "y", "x", "y", "y"]
    assert {row["value"]["op"] for row in later_rows[4:]} == {"u"}
    assert capture.offsets["public.empty"]["snapshot"] == "last"
    assert capture.round() == []


def test_inserts_updates_deletes_and_keys_that_change(capture: Capture, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    capture.round()
    capture.round()
    with database.transaction():
        database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        database.execute("UPDATE t SET name = 'c' WHERE id = 1")
    database.execute("UPDATE t SET id = 3 WHERE id = 2")
    database.execute("DELETE FROM t WHERE id = 1")
    database.execute("TRUNCATE t")
    rows = capture.rounds(8)
    nothing = {"id": 1, "name": None}
    assert short(rows) == [
        ("c", None, {"id": 1, "name": "a"}),
        ("c", None, {"id": 2, "name": "b"}),
        ("u", None, {"id": 1, "name": "c"}),
        ("d", {"id": 2, "name": None}, None),
        None,
        ("c", None, {"id": 3, "name": "b"}),
        ("d", nothing, None),
        None,
    ]
    assert [row["key"]["id"] for row in rows] == [1, 2, 1, 2, 2, 3, 1, 1]
    sources = [row["value"]["source"] for row in rows if row["value"]]
    assert {(source["db"], source["schema"], source["table"], source["name"]) for source in sources} == {
        (database.info.dbname, "public", "t", "p")
    }
    assert len({source["txId"] for source in sources}) == 3
    assert [source["lsn"] for source in sources] == sorted(source["lsn"] for source in sources)


def test_the_whole_row_before_where_the_table_tells(
    postgres: PostgresServer, name: str, database: psycopg.Connection[Any]
) -> None:
    big = "".join(chr(0x4E00 + n % 7000) for n in range(60_000))
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, big text)")
    database.execute("CREATE TABLE plain (id int PRIMARY KEY, name text, big text)")
    for table in ("t", "plain"):
        database.execute(f"ALTER TABLE {table} ALTER big SET STORAGE EXTERNAL")
        database.execute(f"INSERT INTO {table} VALUES (1, 'a', %s)", (big,))
    own_capture = Capture(
        postgres, name, replica_identity_autoset_values=r"public\.t:FULL", slot_drop_on_stop="true",
        snapshot_mode="never", skipped_operations="none",
    )  # fmt: skip
    own_capture.round()
    own_capture.round()
    for table in ("t", "plain"):
        database.execute(f"UPDATE {table} SET name = 'b'")
    database.execute("DELETE FROM t")
    database.execute("TRUNCATE plain")
    rows = sorted(own_capture.rounds(5), key=lambda row: str(row["topic"]), reverse=True)
    before, after = {"id": 1, "name": "a", "big": big}, {"id": 1, "name": "b", "big": big}
    assert short(rows) == [
        ("u", before, after),
        ("d", after, None),
        None,
        ("u", None, {"id": 1, "name": "b", "big": "__debezium_unavailable_value"}),
        ("t", None, None),
    ]
    own_capture.reader.close()
    assert database.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", (name,)).fetchone() == (
        0,
    )


def test_columns_come_and_go_and_types_are_those_of_the_snapshot(
    capture: Capture, database: psycopg.Connection[Any]
) -> None:
    database.execute("""
        CREATE TABLE t (id bigint PRIMARY KEY, amount numeric(9, 2), free numeric, f real, at date, clock time,
            moment timestamp, zoned timestamptz, data bytea, yes boolean, who uuid, doc jsonb,
            tags text[], c char(3))""")
    values = """amount = 1.5, free = 1e-30, f = 1.1, at = '2024-02-29', clock = '12:34:56.789', data = '\\x00ff',
        moment = '2024-02-29 01:02:03.4567', zoned = '2024-02-29 01:02:03+02', yes = false, doc = '{"a": 1}',
        who = '12345678-1234-1234-1234-123456789abc', tags = '{a,NULL}', c = 'x'"""
    database.execute("INSERT INTO t VALUES (1)")
    database.execute(f"UPDATE t SET {values}")
    (snapshot,) = capture.round()
    capture.round()
    database.execute(f"UPDATE t SET {values}")
    (change,) = capture.rounds(1)
    assert change["value"]["after"] == snapshot["value"]["after"]
    assert change["value"]["after"]["amount"] == Decimal("1.50")
    assert change["value"]["after"]["zoned"] == datetime.datetime(2024, 2, 28, 23, 2, 3, tzinfo=datetime.UTC)
    database.execute("ALTER TABLE t RENAME amount TO price")
    database.execute("ALTER TABLE t DROP tags, ADD more int DEFAULT 7")
    database.execute("INSERT INTO t (id, price) VALUES (2, 2.5)")
    with database.transaction():
        database.execute("INSERT INTO t (id) VALUES (3)")
        database.execute("ALTER TABLE t ADD late text")
        database.execute("INSERT INTO t (id, late) VALUES (4, 'now')")
    rows = [capture.rounds(1), capture.rounds(1)]
    (second,) = rows[0]
    assert second["value"]["after"]["price"] == Decimal("2.50")
    assert second["value"]["after"]["more"] == 7
    assert not {"amount", "tags", "late"} & set(second["value"]["after"])
    assert [(row["key"]["id"], row["value"]["after"]["late"]) for row in rows[1]] == [(3, None), (4, "now")]


def test_changes_are_read_again_until_they_are_committed_and_never_after(
    capture: Capture, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    capture.round()
    capture.round()
    for number in range(5):
        database.execute("INSERT INTO t VALUES (%s)", (number,))
    assert [row["key"]["id"] for row in capture.round(limit=2, commit=False)] == [0]
    capture.restart()
    # The worker dies after the transaction, before it has advanced the slot.
    with monkeypatch.context() as patch:
        patch.setattr(PostgresReader, "committed", lambda *_: None)
        assert [row["key"]["id"] for row in capture.rounds(1, limit=5)] == [0, 1]
    capture.restart()
    database.execute("INSERT INTO other VALUES (9)")
    rows = capture.rounds(4, limit=2)
    assert sorted(row["key"]["id"] for row in rows) == [2, 3, 4, 9]
    capture.restart()
    assert [capture.round() for _ in range(3)] == [[], [], []]


def test_a_large_transaction_is_one_batch(capture: Capture, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    capture.round()
    capture.round()
    database.execute("INSERT INTO t SELECT generate_series(1, 25000)")
    database.execute("INSERT INTO t VALUES (0)")
    assert len(capture.rounds(1, limit=100)) == 25_000
    assert len(capture.rounds(1, limit=100)) == 1


def test_new_tables_are_read_and_a_lost_slot_is_said(
    capture: Capture, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{DATABASES}.postgres_source.TABLES_SECONDS", 0.0)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    capture.round()
    capture.round()
    database.execute("CREATE TABLE later (id int PRIMARY KEY)")
    database.execute("INSERT INTO later VALUES (1)")
    database.execute("INSERT INTO t VALUES (1)")
    rows = capture.rounds(2)
    assert sorted((row["topic"], row["value"]["op"]) for row in rows) == [("p.public.later", "r"), ("p.public.t", "c")]
    database.execute("INSERT INTO later VALUES (2)")
    assert short(capture.rounds(1)) == [("c", None, {"id": 2})]
    database.execute("SELECT pg_drop_replication_slot(%s)", (database.info.dbname,))
    capture.restart()
    with pytest.raises(ConnectError, match=r"slot .* is gone"):
        capture.round()


def test_a_log_that_grows_by_other_things_is_let_go_and_nothing_else(
    postgres: PostgresServer, database: psycopg.Connection[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{DATABASES}.postgres_source.LET_GO_BYTES", 1000)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("CREATE TABLE other (id int)")
    own_capture = Capture(postgres, name, table_include_list=r"public\.t", slot_drop_on_stop="true")
    own_capture.round()
    own_capture.round()
    position = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
    before = database.execute(position, (name,)).fetchone()
    for number in range(60):
        database.execute("INSERT INTO other SELECT generate_series(1, 100)")
        if number % 20 == 10:
            database.execute("INSERT INTO t VALUES (%s)", (number,))
            assert [row["key"]["id"] for row in own_capture.rounds(1)] == [number]
        assert own_capture.round() == []
    assert database.execute(position, (name,)).fetchone() != before
    own_capture.reader.close()


def test_a_slot_that_forgot_is_told_again(
    capture: Capture, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of the server, which persists the position of a slot only occasionally."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    capture.round()
    capture.round()
    for number in range(20):
        database.execute("INSERT INTO t VALUES (%s)", (number,))
    with monkeypatch.context() as patch:
        patch.setattr(f"{DATABASES}.postgres_slot.ReplicationSlot.advance", lambda *_: None)
        capture.rounds(20)
        database.execute("INSERT INTO t VALUES (20)")
        # All peeked changes are old, and more changes follow.
        assert capture.round(limit=10) == []
    assert [row["key"]["id"] for row in capture.rounds(1, limit=10)] == [20]


def settled(capture: Capture) -> None:
    """Rounds until there is nothing to read."""
    for _ in range(4):
        capture.round()


def test_changes_of_a_partitioned_table_come_under_its_own_name(
    capture: Capture, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.execute("INSERT INTO t VALUES (1, 'a')")
    assert short(capture.rounds(1)) == [("r", None, {"id": 1, "name": "a"})]
    settled(capture)
    database.execute("INSERT INTO t VALUES (12, 'b')")
    database.execute("UPDATE t SET name = 'c' WHERE id = 1")
    rows = capture.rounds(2)
    assert short(rows) == [("c", None, {"id": 12, "name": "b"}), ("u", None, {"id": 1, "name": "c"})]
    assert {row["topic"] for row in rows} == {"p.public.t"}
    # The publication is unchanged.
    capture.restart()
    database.execute("DELETE FROM t WHERE id = 12")
    assert len(capture.rounds(2)) == 2


def test_a_publication_that_knew_no_partitioned_tables_learns_it(
    capture: Capture, database: psycopg.Connection[Any], name: str
) -> None:
    database.execute(f"CREATE PUBLICATION {name}")
    # A publication cannot contain an unlogged table, so the table is skipped.
    database.execute("CREATE UNLOGGED TABLE passing (id int PRIMARY KEY)")
    database.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    settled(capture)
    database.execute("INSERT INTO t VALUES (1)")
    assert short(capture.rounds(1)) == [("c", None, {"id": 1})]


def test_every_table_is_read_again_when_the_slot_was_dropped(
    postgres: PostgresServer, database: psycopg.Connection[Any], name: str
) -> None:
    for table in ("a", "b"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    own_capture = Capture(postgres, name, slot_drop_on_stop="true")
    settled(own_capture)
    own_capture.restart()
    for table in ("a", "b"):
        database.execute(f"INSERT INTO {table} VALUES (1)")
    # A stop after all positions were dropped, then a kill with a slot and before any row that was read is in a topic.
    assert own_capture.round() == []
    own_capture.restart()
    assert own_capture.round() == []
    assert len(own_capture.round(commit=False)) == 2
    own_capture.kill()
    rows = own_capture.rounds(2)
    assert sorted((row["topic"], row["value"]["op"]) for row in rows) == [("p.public.a", "r"), ("p.public.b", "r")]
    settled(own_capture)
    database.execute("INSERT INTO b VALUES (2)")
    assert short(own_capture.rounds(1)) == [("c", None, {"id": 2})]
    own_capture.reader.close()


def test_a_new_table_waits_for_those_who_have_changed_it_and_others_do_not(
    capture: Capture,
    database: psycopg.Connection[Any],
    postgres: PostgresServer,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{DATABASES}.postgres_source.TABLES_SECONDS", 0.0)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    settled(capture)
    database.execute("CREATE TABLE later (id int PRIMARY KEY)")
    with postgres.connect(name) as other:
        with other.transaction():
            other.execute("INSERT INTO later VALUES (1)")
            database.execute("INSERT INTO later VALUES (2)")
            assert capture.round() == []
            assert "public.later" not in capture.offsets
            database.execute("INSERT INTO t VALUES (7)")
            assert [row["topic"] for row in capture.rounds(1)] == ["p.public.t"]
        rows = capture.rounds(2)
        assert short(rows) == [("r", None, {"id": 1}), ("r", None, {"id": 2})]
        settled(capture)
        other.execute("INSERT INTO later VALUES (3)")
        assert short(capture.rounds(1)) == [("c", None, {"id": 3})]


def test_a_large_value_that_was_not_touched_is_not_told_as_gone(
    capture: Capture, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n int, data bytea)")
    database.execute("ALTER TABLE t ALTER data SET STORAGE EXTERNAL")
    database.execute("INSERT INTO t VALUES (1, 1, %s)", (bytes(100_000),))
    capture.round()
    settled(capture)
    database.execute("UPDATE t SET n = 2")
    after = {"id": 1, "n": 2, "data": b"__debezium_unavailable_value"}
    assert short(capture.rounds(1)) == [("u", None, after)]


def test_a_table_that_gets_another_name_is_another_table(capture: Capture, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    database.execute("CREATE TABLE b (id int PRIMARY KEY)")
    settled(capture)
    database.execute("INSERT INTO a VALUES (1)")
    with database.transaction():
        database.execute("INSERT INTO a VALUES (2)")
        database.execute("ALTER TABLE a RENAME TO old")
        database.execute("ALTER TABLE b RENAME TO a")
        database.execute("INSERT INTO a VALUES (3)")
        database.execute("INSERT INTO old VALUES (4)")
    database.execute("INSERT INTO a VALUES (5)")
    rows = capture.rounds(4)
    assert [(row["topic"], row["key"]["id"]) for row in rows] == [("p.public.a", number) for number in (1, 2, 3, 5)]


def test_the_key_of_a_row_that_is_gone_is_what_the_server_tells_of_it(
    capture: Capture, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL)")
    database.execute("CREATE UNIQUE INDEX by_code ON t (code)")
    database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX by_code")
    database.execute("INSERT INTO t VALUES (1, 'x')")
    (row,) = capture.rounds(1)
    assert row["key"] == {"code": "x"}
    settled(capture)
    database.execute("UPDATE t SET id = 2")
    database.execute("DELETE FROM t")
    rows = capture.rounds(3)
    assert [row["key"] for row in rows] == [{"code": "x"}] * 3
    assert short(rows)[1:] == [("d", {"id": None, "code": "x"}, None), None]


def test_what_a_slot_does_not_tell_any_more_is_said(capture: Capture, database: psycopg.Connection[Any]) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    settled(capture)
    database.execute("INSERT INTO t VALUES (1)")
    (partition,) = capture.reader.partitions()
    start = capture.offsets["public.t"]
    end = capture.reader.latest(partition, start, ReadLimit())
    assert end is not None
    capture.reader.committed(partition, end)
    with pytest.raises(RetriableError, match=r"does not tell what it told of public\.t"):
        list(capture.reader.read(partition, start, end))


def test_times_without_end_are_the_same_in_snapshot_and_changes(
    capture: Capture, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, at date, bare timestamp, zoned timestamptz)")
    values = "at = '-infinity', bare = 'infinity', zoned = '20000-01-01 00:00+00'"
    database.execute("INSERT INTO t VALUES (1)")
    database.execute(f"UPDATE t SET {values}")
    (snapshot,) = capture.rounds(1)
    settled(capture)
    database.execute(f"UPDATE t SET {values}")
    (change,) = capture.rounds(1)
    last = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
    assert change["value"]["after"] == {"id": 1, "at": datetime.date(1, 1, 1), "bare": last, "zoned": last}
    assert snapshot["value"]["after"] == change["value"]["after"]
