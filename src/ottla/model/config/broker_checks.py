"""Checks of several keys together, which Apache Kafka also makes before a node starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from ottla.model.config.broker_config import BrokerConfig

__all__ = ["check_together"]

# The assignors of consumer groups. Other values would be Java classes.
_ASSIGNORS = ("uniform", "range")

# The replica selectors of Apache Kafka (KIP-392). Other values would be Java classes.
_REPLICA_SELECTORS = (
    None,
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)

# none, gzip, snappy, lz4, zstd
_CODEC_MAX = 4


def check_together(config: BrokerConfig) -> None:
    """Raises ConfigError for the first violation."""
    _check_node(config)
    _check_quorum(config)
    _check_listeners(config)
    _check_between_nodes(config)
    _check_log(config)
    _check_replication(config)
    _check_connections(config)
    _check_groups(config)


def _require(condition: bool, message: str, key: str) -> None:
    if not condition:
        raise ConfigError(message, key=key)


def _check_node(config: BrokerConfig) -> None:
    _require(
        config.get("broker.id") == config.node_id,
        f"node.id is {config.node_id} and broker.id is {config.get('broker.id')}, but they must be the same.",
        "broker.id",
    )


def _check_quorum(config: BrokerConfig) -> None:
    voters = config.quorum_voters
    _require(
        bool(voters) or bool(config.quorum_bootstrap_servers),
        "One of controller.quorum.voters and controller.quorum.bootstrap.servers must name the controllers.",
        "controller.quorum.voters",
    )
    names = ", ".join(config.controller_listener_names)
    _require(bool(names), "controller.listener.names must name at least one listener.", "controller.listener.names")
    if config.is_controller:
        _require(
            not voters or config.node_id in voters,
            f"A node with the controller role must be a voter, but controller.quorum.voters has no {config.node_id}.",
            "controller.quorum.voters",
        )
        bound = {endpoint.listener_name for endpoint in config.endpoints}
        _require(
            bound.issuperset(config.controller_listener_names),
            f"controller.listener.names is {names}, but a node with the controller role must have all of them in "
            "listeners.",
            "controller.listener.names",
        )
    else:
        _require(
            config.node_id not in voters,
            f"A node without the controller role must not be a voter, but controller.quorum.voters has "
            f"{config.node_id}.",
            "controller.quorum.voters",
        )
        _require(
            not config.controller_endpoints,
            f"controller.listener.names is {names}, but a node without the controller role must have none of them in "
            "listeners.",
            "controller.listener.names",
        )
    for name in config.controller_listener_names:
        _require(
            name in config.security_protocols,
            f"controller.listener.names has {name}, for which listener.security.protocol.map has no protocol.",
            "controller.listener.names",
        )


def _check_listeners(config: BrokerConfig) -> None:
    _check_ports(config)
    for endpoint in (*config.advertised_endpoints, *config.advertised_controller_endpoints):
        _require(
            endpoint.host != "0.0.0.0",
            f"{endpoint} cannot be advertised, because no client can connect to 0.0.0.0: set advertised.listeners to "
            "an address clients can reach.",
            "advertised.listeners",
        )
    if not config.is_broker:
        _require(
            not config.broker_endpoints,
            "A node with only the controller role must have no listener but those of controller.listener.names.",
            "listeners",
        )
        return
    advertised = {endpoint.listener_name for endpoint in config.advertised_endpoints}
    shown = ", ".join(sorted(advertised))
    _require(
        bool(advertised),
        "A node with the broker role needs a listener that is not in controller.listener.names.",
        "listeners",
    )
    bound = {endpoint.listener_name for endpoint in config.endpoints}
    _require(
        advertised <= bound,
        f"advertised.listeners has {', '.join(sorted(advertised - bound))}, which listeners does not have.",
        "advertised.listeners",
    )
    _require(
        config.inter_broker_listener_name in advertised,
        f"inter.broker.listener.name is {config.inter_broker_listener_name}, but it must be one of the advertised "
        f"listeners: {shown}.",
        "inter.broker.listener.name",
    )


def _check_between_nodes(config: BrokerConfig) -> None:
    """Brokers log in at each other with a mechanism that their listener offers."""
    name = config.inter_broker_listener_name
    if not config.is_broker or not config.security_protocols.get(name, "").startswith("SASL_"):
        return
    own = config.listener_overrides.get(name, {}).get("sasl.enabled.mechanisms")
    offered = config.sasl_enabled_mechanisms if own is None else [part.strip() for part in own.split(",")]
    mechanism = config.sasl_mechanism_inter_broker_protocol
    _require(
        mechanism in offered,
        f"sasl.mechanism.inter.broker.protocol is {mechanism}, but the listener {name} offers {', '.join(offered)} "
        "(sasl.enabled.mechanisms).",
        "sasl.mechanism.inter.broker.protocol",
    )


def _check_ports(config: BrokerConfig) -> None:
    hosts_by_port: dict[int, list[str]] = {}
    for endpoint in config.endpoints:
        # Port 0 stands for a different free port each time. IPv4 and IPv6 may share a port (KIP-797).
        if endpoint.port != 0:
            hosts_by_port.setdefault(endpoint.port, []).append(endpoint.host)
    for port, hosts in hosts_by_port.items():
        families = [":" in host for host in hosts]
        _require(len(families) == len(set(families)), f"listeners uses the port {port} twice.", "listeners")


def _check_log(config: BrokerConfig) -> None:
    _require(bool(config.log_dirs), "log.dirs or log.dir must name at least one directory.", "log.dirs")
    _check_cordoned(config)
    _require(config.log_roll_ms >= 1, f"log.roll.ms is {config.log_roll_ms}, but it must be at least 1.", "log.roll.ms")
    _require(
        config.log_roll_jitter_ms >= 0,
        f"log.roll.jitter.ms is {config.log_roll_jitter_ms}, but it must be at least 0.",
        "log.roll.jitter.ms",
    )
    _require(
        config.log_retention_ms != 0,
        "log.retention.ms is 0, but it must be at least 1, or -1 for no limit.",
        "log.retention.ms",
    )
    threads = max(config.log_cleaner_threads, 1)
    _require(
        config.log_cleaner_dedupe_buffer_size // threads > 1 << 20,
        f"log.cleaner.dedupe.buffer.size is {config.log_cleaner_dedupe_buffer_size}, but it must be more than 1 MiB "
        "for each of log.cleaner.threads.",
        "log.cleaner.dedupe.buffer.size",
    )


def _check_cordoned(config: BrokerConfig) -> None:
    cordoned = config.cordoned_log_dirs
    _require(
        "*" not in cordoned or len(cordoned) == 1,
        "cordoned.log.dirs has * for all log directories, so it must name no other.",
        "cordoned.log.dirs",
    )
    unknown = [path for path in cordoned if path != "*" and path not in config.log_dirs]
    _require(
        not unknown,
        f"cordoned.log.dirs has {', '.join(unknown)}, but it must be among the directories of log.dirs.",
        "cordoned.log.dirs",
    )


def _check_replication(config: BrokerConfig) -> None:
    _require(
        config.replica_selector_class in _REPLICA_SELECTORS,
        f"replica.selector.class is {config.replica_selector_class}, but classes cannot be loaded; it must be one of "
        f"{', '.join(filter(None, _REPLICA_SELECTORS))}.",
        "replica.selector.class",
    )
    wait = config.replica_fetch_wait_max_ms
    _require(
        wait <= config.replica_socket_timeout_ms,
        f"replica.fetch.wait.max.ms is {wait}, but it must not be greater than replica.socket.timeout.ms, which is "
        f"{config.replica_socket_timeout_ms}.",
        "replica.fetch.wait.max.ms",
    )
    _require(
        wait <= config.replica_lag_time_max_ms,
        f"replica.fetch.wait.max.ms is {wait}, but it must not be greater than replica.lag.time.max.ms, which is "
        f"{config.replica_lag_time_max_ms}.",
        "replica.fetch.wait.max.ms",
    )


def _check_connections(config: BrokerConfig) -> None:
    _require(
        config.queued_max_request_bytes <= 0 or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        f"queued.max.request.bytes is {config.queued_max_request_bytes}, but it must be at least "
        f"socket.request.max.bytes, which is {config.socket_request_max_bytes}, or -1 for no limit.",
        "queued.max.request.bytes",
    )
    _require(
        config.max_connections_per_ip > 0 or bool(config.connections_per_ip),
        "max.connections.per.ip can be 0 only if max.connections.per.ip.overrides lets some address in.",
        "max.connections.per.ip",
    )
    idle, delay = config.connections_max_idle_ms, config.connection_failed_authentication_delay_ms
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms is {delay}, but it must be less than connections.max.idle.ms, "
        f"which is {idle}.",
        "connection.failed.authentication.delay.ms",
    )


def _check_groups(config: BrokerConfig) -> None:
    codec = config.offsets_topic_compression_codec
    _require(
        0 <= codec <= _CODEC_MAX,
        f"offsets.topic.compression.codec must be the number of a codec (0 to {_CODEC_MAX}), but is {codec}.",
        "offsets.topic.compression.codec",
    )
    for name in config.group_consumer_assignors:
        _require(
            name in _ASSIGNORS,
            f"group.consumer.assignors names {name}, but only {' and '.join(_ASSIGNORS)} are available.",
            "group.consumer.assignors",
        )
    for kind in ("consumer", "share", "streams"):
        for setting in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            _check_between(config, f"group.{kind}", setting)
    _require(
        config.group_consumer_heartbeat_interval_ms < config.group_consumer_session_timeout_ms,
        "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms.",
        "group.consumer.heartbeat.interval.ms",
    )


def _check_between(config: BrokerConfig, prefix: str, setting: str) -> None:
    value, low, high = (config.get(f"{prefix}.{bound}{setting}") for bound in ("", "min.", "max."))
    assert isinstance(value, int)
    assert isinstance(low, int)
    assert isinstance(high, int)
    _require(
        low <= value <= high,
        f"{prefix}.{setting} must be between its minimum and maximum ({low} and {high}), but is {value}.",
        f"{prefix}.{setting}",
    )
