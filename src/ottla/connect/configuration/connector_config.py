"""The settings that every connector has, and the validation of a connector's configuration.

Names, groups and their order are Kafka Connect's, because user interfaces build their forms from them. Our own settings
are the trigger interval, the size of a batch, and the restart policy of failed tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.connect.api import (
    ConfigDefinition,
    ConfigDefinitions,
    ConfigType,
    ConfigValue,
    ConnectError,
    Connector,
    Converter,
    Importance,
    OneOf,
    Plugin,
    Predicate,
    Range,
    Setting,
    SinkConnector,
    SourceConnector,
    Transform,
    Width,
)
from ottla.connect.api.config_definitions import names_in
from ottla.connect.plugins.discovery import Plugins, full_name
from ottla.model.config.values import format_value

__all__ = ["connector_definitions", "definition_body", "validate_connector", "validation_body"]

_COMMON, _TRANSFORMS, _PREDICATES, _ERRORS = "Common", "Transforms", "Predicates", "Error Handling"
_TOPICS, _EXACTLY_ONCE, _OFFSETS, _BATCHES = "Topic Creation", "Exactly Once Support", "offsets.topic", "Batches"


def _is_name(value: Setting) -> str | None:
    if not value:
        return "it must not be empty."
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in str(value)):
        return "it must not have control characters."
    return None


def _common(kind: type[Connector], plugins: Plugins) -> ConfigDefinitions:
    version = kind.version
    converters = [installed.name for installed in plugins.all() if issubclass(installed.plugin, Converter)]
    low, short = Importance.LOW, Width.SHORT
    return (
        ConfigDefinitions()
        .define("name", ConfigType.STRING, importance=Importance.HIGH, validator=_is_name, group=_COMMON,
                order_in_group=1, width=Width.MEDIUM, display_name="Connector name",
                documentation="The name of this connector, the only one of its kind in the cluster.")
        .define("connector.class", ConfigType.STRING, importance=Importance.HIGH, group=_COMMON, order_in_group=2,
                width=Width.LONG, display_name="Connector class",
                documentation="Which plug-in does the work: its full name, its class, or a short form.")
        .define("connector.plugin.version", ConfigType.STRING, default=version, group=_COMMON, order_in_group=3,
                width=Width.MEDIUM, display_name="Connector version", recommended=lambda _: [version],
                documentation="The version of the plug-in; there is one at a time.")
        .define("tasks.max", ConfigType.INT, default=1, importance=Importance.HIGH, validator=Range(minimum=1),
                group=_COMMON, order_in_group=4, width=short, display_name="Tasks max",
                documentation="The most tasks this connector may have.")
        .define("tasks.max.enforce", ConfigType.BOOLEAN, default=True, importance=low, group=_COMMON,
                order_in_group=5, width=short, display_name="Enforce tasks max",
                documentation="Whether a connector that plans more tasks than allowed fails.")
        .define("key.converter", ConfigType.CLASS, default=None, importance=low, group=_COMMON, order_in_group=6,
                width=short, display_name="Key converter class", recommended=lambda _: converters,
                documentation="How keys become bytes and bytes become keys.")
        .define("key.converter.plugin.version", ConfigType.STRING, default=None, importance=low, group=_COMMON,
                order_in_group=7, width=short, display_name="Key converter version",
                documentation="The version of that converter.")
        .define("value.converter", ConfigType.CLASS, default=None, importance=low, group=_COMMON, order_in_group=8,
                width=short, display_name="Value converter class", recommended=lambda _: converters,
                documentation="How values become bytes and bytes become values.")
        .define("value.converter.plugin.version", ConfigType.STRING, default=None, importance=low, group=_COMMON,
                order_in_group=9, width=short, display_name="Value converter version",
                documentation="The version of that converter.")
        .define("header.converter", ConfigType.CLASS, default=None, importance=low, group=_COMMON, order_in_group=10,
                width=short, display_name="Header converter class",
                documentation="How headers that transforms add become bytes. Others are bytes, and stay as they are.")
        .define("header.converter.plugin.version", ConfigType.STRING, default=None, importance=low, group=_COMMON,
                order_in_group=11, width=short, display_name="Header converter version",
                documentation="The version of that converter.")
        .define("transforms", ConfigType.LIST, default=(), importance=low, group=_TRANSFORMS, order_in_group=12,
                width=Width.LONG, display_name="Transforms", documentation="Names of transforms, in their order.")
        .define("predicates", ConfigType.LIST, default=(), importance=low, group=_PREDICATES, order_in_group=13,
                width=Width.LONG, display_name="Predicates", documentation="Names of conditions for transforms.")
        .define("config.action.reload", ConfigType.STRING, default="restart", importance=low, group=_COMMON,
                order_in_group=14, width=Width.MEDIUM, display_name="Reload Action",
                validator=OneOf("none", "restart", any_case=True),
                documentation="What happens when a value from a provider changes.")
    ).joined(_common_errors())  # fmt: skip


def _common_errors() -> ConfigDefinitions:
    short = Width.SHORT
    return (
        ConfigDefinitions()
        .define("errors.retry.timeout", ConfigType.LONG, default=0, group=_ERRORS, order_in_group=1,
                width=Width.MEDIUM, display_name="Retry Timeout for Errors",
                documentation="For how long, in milliseconds, a batch that failed is tried again; -1 for ever.")
        .define("errors.retry.delay.max.ms", ConfigType.LONG, default=60_000, group=_ERRORS, order_in_group=2,
                width=Width.MEDIUM, display_name="Maximum Delay Between Retries for Errors",
                documentation="The longest pause between two tries.")
        .define("errors.tolerance", ConfigType.STRING, default="none", group=_ERRORS, order_in_group=3, width=short,
                display_name="Error Tolerance", validator=OneOf("none", "all", any_case=True),
                documentation="Whether a record that cannot be converted ends the task (none) or is skipped (all).")
        .define("errors.log.enable", ConfigType.BOOLEAN, default=False, group=_ERRORS, order_in_group=4, width=short,
                display_name="Log Errors", documentation="Whether skipped records are logged.")
        .define("errors.log.include.messages", ConfigType.BOOLEAN, default=False, group=_ERRORS, order_in_group=5,
                width=short, display_name="Log Error Details",
                documentation="Whether the log has their content, too.")
    )  # fmt: skip


_SOURCE = (
    ConfigDefinitions()
    .define("topic.creation.groups", ConfigType.LIST, default=(), importance=Importance.LOW, group=_TOPICS,
            order_in_group=1, width=Width.LONG, display_name="Topic Creation Groups",
            documentation="Names of rules for topics that the connector creates.")
    .define("exactly.once.support", ConfigType.STRING, default="requested", group=_EXACTLY_ONCE, order_in_group=2,
            width=Width.SHORT, display_name="Exactly once support",
            validator=OneOf("requested", "required", any_case=True),
            documentation="With `required`, a connector that cannot promise exactly-once is refused.")
    .define("transaction.boundary", ConfigType.STRING, default="poll", group=_EXACTLY_ONCE, order_in_group=3,
            width=Width.SHORT, display_name="Transaction Boundary",
            validator=OneOf("poll", "interval", "connector", any_case=True),
            documentation="Accepted: a transaction is a batch.")
    .define("transaction.boundary.interval.ms", ConfigType.LONG, default=None, importance=Importance.LOW,
            group=_EXACTLY_ONCE, order_in_group=4, width=Width.SHORT, display_name="Transaction boundary interval",
            documentation="Accepted: see trigger.interval.ms.")
    .define("offsets.storage.topic", ConfigType.STRING, default=None, importance=Importance.LOW, group=_OFFSETS,
            order_in_group=1, width=Width.LONG, display_name="Offsets topic",
            documentation="Accepted: offsets of all connectors are in the offset topic of the workers.")
)  # fmt: skip

_SINK = (
    ConfigDefinitions()
    .define("topics", ConfigType.LIST, default=(), importance=Importance.HIGH, group=_COMMON, order_in_group=4,
            width=Width.LONG, display_name="Topics", documentation="The topics to read, with commas.")
    .define("topics.regex", ConfigType.STRING, default="", importance=Importance.HIGH, group=_COMMON,
            order_in_group=4, width=Width.LONG, display_name="Topics regex",
            documentation="A regular expression for the topics to read.")
    .define("errors.deadletterqueue.topic.name", ConfigType.STRING, default="", group=_ERRORS, order_in_group=6,
            width=Width.MEDIUM, display_name="Dead Letter Queue Topic Name",
            documentation="Where records go that could not be processed; empty drops them.")
    .define("errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, default=3, group=_ERRORS,
            order_in_group=7, width=Width.MEDIUM, display_name="Dead Letter Queue Topic Replication Factor",
            documentation="Replicas of that topic, when it has to be created.")
    .define("errors.deadletterqueue.context.headers.enable", ConfigType.BOOLEAN, default=False, group=_ERRORS,
            order_in_group=8, width=Width.MEDIUM, display_name="Enable Error Context Headers",
            documentation="Whether headers say what went wrong with a record.")
)  # fmt: skip

# Settings that Kafka Connect does not have come last, so that forms show Kafka's settings first.
_OURS = (
    ConfigDefinitions()
    .define("trigger.interval.ms", ConfigType.LONG, default=None, importance=Importance.LOW, group=_BATCHES,
            order_in_group=1, display_name="Trigger interval", documentation="How often a task looks for work.")
    .define("batch.max.records", ConfigType.LONG, default=None, importance=Importance.LOW, group=_BATCHES,
            order_in_group=2, display_name="Records per batch", documentation="How many records a batch may have.")
    .define("batch.max.bytes", ConfigType.LONG, default=None, importance=Importance.LOW, group=_BATCHES,
            order_in_group=3, display_name="Bytes per batch", documentation="How many bytes a batch may have.")
    .define("tasks.restart.max.attempts", ConfigType.INT, default=3, importance=Importance.LOW, group=_ERRORS,
            order_in_group=9, display_name="Restarts of failed tasks", validator=Range(minimum=-1),
            documentation="How often a failed task is restarted automatically; -1 for ever.")
    .define("tasks.restart.backoff.ms", ConfigType.LONG, default=10_000, importance=Importance.LOW, group=_ERRORS,
            order_in_group=10, display_name="Pause before a restart",
            documentation="The first pause; each following one is twice as long, up to five minutes.")
)  # fmt: skip


def connector_definitions(connector: type[Connector], plugins: Plugins) -> ConfigDefinitions:
    """All settings of a connector: those that every connector has, and its own."""
    kind = _SINK if issubclass(connector, SinkConnector) else _SOURCE
    return _common(connector, plugins).joined(kind).joined(connector.config_definitions()).joined(_OURS)


def validate_connector(
    config: Mapping[str, str | None], plugins: Plugins, defaults: Mapping[str, str]
) -> tuple[type[Connector], list[tuple[ConfigDefinition, ConfigValue]], list[str]]:
    """The connector's class, the validation results of all settings, and the groups. Raises ConnectError.

    `defaults` are the worker's converters, which apply unless the connector has its own.
    """
    name = config.get("connector.class")
    if name is None:
        raise ConnectError("The configuration has no connector.class.")
    connector = plugins.connector(name)
    definitions = connector_definitions(connector, plugins)
    effective: dict[str, str | None] = {**_converter_defaults(config, defaults), **config}
    for definition in _of_steps(config, "transforms", Transform, plugins):
        definitions.add(definition)
    for definition in _of_steps(config, "predicates", Predicate, plugins):
        definitions.add(definition)
    values = definitions.validate(effective)
    given = {key: text for key, text in config.items() if text is not None}
    _check_plugins(given, values, plugins)
    if issubclass(connector, SinkConnector):
        _check_topics(given, values)
    elif given.get("exactly.once.support", "").lower() == "required":
        _check_exactly_once(connector, values)
    try:
        connector().validate(given, values)
    except ConnectError as error:
        values["connector.class"].errors.append(str(error))
    return connector, [(definitions[key], value) for key, value in values.items()], definitions.groups()


def validation_body(
    connector: type[Connector], values: Iterable[tuple[ConfigDefinition, ConfigValue]], groups: list[str]
) -> dict[str, Any]:
    """The answer of `PUT /connector-plugins/x/config/validate`."""
    listed = list(values)
    return {
        "name": full_name(connector),
        "error_count": sum(len(value.errors) for _, value in listed),
        "groups": groups,
        "configs": [
            {
                "definition": definition_body(definition),
                "value": {
                    "name": value.name,
                    "value": value.value,
                    "recommended_values": value.recommended,
                    "errors": value.errors,
                    "visible": value.visible,
                },
            }
            for definition, value in listed
        ],
    }


def definition_body(definition: ConfigDefinition) -> dict[str, Any]:
    default = None if definition.is_required else format_value(definition.default)  # type: ignore[arg-type]
    if definition.type is ConfigType.PASSWORD and default is not None:
        default = "[hidden]"
    return {
        "name": definition.name,
        "type": definition.type.name,
        "required": definition.is_required,
        "default_value": default,
        "importance": definition.importance.name,
        "documentation": definition.documentation,
        "group": definition.group,
        "order_in_group": definition.order_in_group,
        "width": definition.width.value,
        "display_name": definition.display_name or definition.name,
        "dependents": list(definition.dependents),
    }


def _converter_defaults(config: Mapping[str, str | None], defaults: Mapping[str, str]) -> dict[str, str | None]:
    return {
        key: text
        for key, text in defaults.items()
        if key in ("key.converter", "value.converter", "header.converter") and key not in config
    }


def _of_steps(
    config: Mapping[str, str | None], kind: str, of: type[Plugin], plugins: Plugins
) -> list[ConfigDefinition]:
    """The settings of the transforms or predicates that a configuration names."""
    word = "Transformation" if kind == "transforms" else "Predicate"
    definitions: list[ConfigDefinition] = []
    for name in dict.fromkeys(names_in(config.get(kind))):
        prefix, group = f"{kind}.{name}.", f"{kind.capitalize()}: {name}"
        choices = [installed.name for installed in plugins.all() if issubclass(installed.plugin, of)]
        definitions.append(
            ConfigDefinition(
                name=prefix + "type",
                type=ConfigType.CLASS,
                importance=Importance.HIGH,
                documentation=f"Which plug-in {name} is.",
                recommended=lambda _, choices=choices: choices,  # type: ignore[misc]
                group=group,
                order_in_group=0,
                width=Width.LONG,
                display_name=f"{word} type for {name}",
            )
        )
        try:
            plugin = plugins.find(config.get(prefix + "type") or "", of)
        except ConnectError:
            continue
        own = list(plugin.config_definitions())
        if kind == "transforms":
            own += [
                definition
                for definition in (
                    ConfigDefinition(
                        name="predicate",
                        type=ConfigType.STRING,
                        default=None,
                        documentation="The predicate that says to which records this applies.",
                    ),
                    ConfigDefinition(
                        name="negate",
                        type=ConfigType.BOOLEAN,
                        default=False,
                        documentation="Whether it applies to the others instead.",
                    ),
                )
                if definition.name not in plugin.config_definitions()
            ]
        for place, definition in enumerate(own, 1):
            definitions.append(_prefixed(definition, prefix, group, place))
    return definitions


def _prefixed(definition: ConfigDefinition, prefix: str, group: str, place: int) -> ConfigDefinition:
    return ConfigDefinition(
        name=prefix + definition.name,
        type=definition.type,
        default=definition.default,
        importance=definition.importance,
        documentation=definition.documentation,
        validator=definition.validator,
        recommended=definition.recommended,
        group=group,
        order_in_group=place,
        width=definition.width,
        display_name=definition.display_name or definition.name,
        dependents=definition.dependents,
    )


def _check_plugins(config: Mapping[str, str], values: dict[str, ConfigValue], plugins: Plugins) -> None:
    wanted: list[tuple[str, type[Plugin]]] = [("key.converter", Converter), ("value.converter", Converter)]
    steps: tuple[tuple[str, type[Plugin]], ...] = (("transforms", Transform), ("predicates", Predicate))
    for kind, of in steps:
        wanted += [(f"{kind}.{name}.type", of) for name in names_in(config.get(kind))]
    for key, of in wanted:
        if key in config and key in values:
            try:
                plugins.find(config[key], of)
            except ConnectError as error:
                values[key].errors.append(str(error))


def _check_topics(config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
    topics, pattern = values["topics"], values["topics.regex"]
    if config.get("topics") and config.get("topics.regex"):
        sentence = "topics and topics.regex are both there, but only one of them may be."
    elif config.get("topics") or config.get("topics.regex"):
        dead = config.get("errors.deadletterqueue.topic.name")
        if dead and dead in names_in(config.get("topics")):
            topics.errors.append(f"{dead} is the topic for dead letters and cannot be read by the same connector.")
        return
    else:
        sentence = "one of topics and topics.regex has to be there."
    topics.errors.append(sentence)
    pattern.errors.append(sentence)


def _check_exactly_once(connector: type[Connector], values: dict[str, ConfigValue]) -> None:
    assert issubclass(connector, SourceConnector)
    if connector.claim.delivery.value != "exactly-once":
        values["exactly.once.support"].errors.append(
            f"{connector.__name__} promises {connector.claim.delivery.value} and no more."
        )
