"""The settings of change data capture, with Debezium's names."""

from __future__ import annotations

from ottla.connect.api import ConfigDefinitions, ConfigType, Importance, Matches, NonEmpty, OneOf, Range, SomeOf

__all__ = ["postgres_settings"]

SNAPSHOT_MODES = ("initial", "initial_only", "never", "no_data")
PUBLICATION_MODES = ("filtered", "all_tables", "disabled")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def postgres_settings() -> ConfigDefinitions:
    return (
        ConfigDefinitions()
        .define("database.hostname", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                documentation="The server's name or address.")
        .define("database.port", ConfigType.INT, default=5432, importance=Importance.HIGH,
                validator=Range(minimum=1, maximum=65535), documentation="The server's port.")
        .define("database.dbname", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                documentation="The database.")
        .define("database.user", ConfigType.STRING, default=None, importance=Importance.HIGH,
                documentation="A user who may replicate, read the tables and create publications.")
        .define("database.password", ConfigType.PASSWORD, default=None, importance=Importance.HIGH,
                documentation="The user's password.")
        .define("database.sslmode", ConfigType.STRING, default="prefer", validator=OneOf(*SSL_MODES),
                documentation="Whether the connection is encrypted, as PostgreSQL's own programs say it.")
        .define("topic.prefix", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                documentation="Topics are prefix.schema.table.")
        .define("table.include.list", ConfigType.LIST, default=(), importance=Importance.HIGH,
                documentation="Patterns (regular expressions) of tables to capture, as schema.table; empty: all.")
        .define("table.exclude.list", ConfigType.LIST, default=(), documentation="Patterns of tables not to capture.")
        .define("schema.include.list", ConfigType.LIST, default=(), documentation="Patterns of schemas to capture.")
        .define("schema.exclude.list", ConfigType.LIST, default=(), documentation="Patterns of schemas not to capture.")
        .define("slot.name", ConfigType.STRING, default="ottla", validator=Matches("[a-z0-9_]{1,63}"),
                documentation="The replication slot; it is created. Each connector needs its own.")
        .define("slot.drop.on.stop", ConfigType.BOOLEAN, default=False,
                documentation="Whether the slot is dropped when the task ends; the next start is a snapshot then.")
        .define("publication.name", ConfigType.STRING, default="ottla", validator=NonEmpty(),
                documentation="The publication that says which tables are sent.")
        .define("publication.autocreate.mode", ConfigType.STRING, default="filtered",
                validator=OneOf(*PUBLICATION_MODES),
                documentation="filtered: the publication has the captured tables. all_tables: all. "
                "disabled: it must exist.")
        .define("replica.identity.autoset.values", ConfigType.LIST, default=(),
                documentation="pattern:FULL or pattern:DEFAULT sets what changes tell about the row before.")
        .define("snapshot.mode", ConfigType.STRING, default="initial", validator=OneOf(*SNAPSHOT_MODES),
                documentation="initial: what is in the tables, then changes. initial_only: no changes. "
                "never or no_data: changes only.")
        .define("snapshot.fetch.size", ConfigType.INT, default=0, validator=Range(minimum=0),
                documentation="How many rows of a table are one portion of the snapshot; 0 leaves it to the worker.")
        .define("tombstones.on.delete", ConfigType.BOOLEAN, default=True,
                documentation="Whether a delete is followed by a record without a value.")
        .define("skipped.operations", ConfigType.LIST, default=("t",),
                validator=SomeOf("c", "u", "d", "t", "none", may_be_empty=True),
                documentation="Which changes are left out: c, u, d, t (truncate).")
        .define("unavailable.value.placeholder", ConfigType.STRING, default="__debezium_unavailable_value",
                importance=Importance.LOW,
                documentation="Stands for a large text or bytea that an update did not touch, where only the replica "
                "identity FULL would tell it.")
    )  # fmt: skip
