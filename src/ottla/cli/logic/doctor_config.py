"""The doctor's checks of a properties file, before the node has ever run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.cli.logic.doctor_finding import HINT, RISK, WRONG, Finding
from ottla.cli.logic.local_files import mount_options
from ottla.host.references import own_config
from ottla.model.config import BrokerConfig, ConfigError

__all__ = ["examine_properties"]


def examine_properties(properties: Mapping[str, str]) -> list[Finding]:
    """Faults and risks in a properties file; an invalid file is a single finding."""
    try:
        config = own_config(properties)
    except (ConfigError, ValueError) as error:
        message = error.message if isinstance(error, ConfigError) else str(error)
        return [Finding(WRONG, "settings", message, "correct it; docs/configuration.md lists every setting")]
    return [
        *_directories(config),
        *_listeners(properties),
        *_replication(config),
        *_unknown(config, properties),
    ]


def _directories(config: BrokerConfig) -> Iterator[Finding]:
    for path in config.log_dirs:
        if path.startswith(("/tmp", "/var/tmp", "/dev/shm")):
            yield Finding(
                RISK,
                "directories",
                f"log.dirs is {path}, which a restart may empty.",
                "set log.dirs to a persistent directory",
            )
        options = mount_options(path)
        if options and "noatime" not in options and "relatime" not in options:
            yield Finding(
                HINT,
                "directories",
                f"{path} is mounted without noatime: every read writes.",
                f"mount -o remount,noatime {path}",
            )


def _listeners(properties: Mapping[str, str]) -> Iterator[Finding]:
    for word in properties.get("listeners", "").split(","):
        name, separator, address = word.strip().partition("://")
        if separator and name.upper().startswith("PLAINTEXT") and address.startswith((":", "0.0.0.0", "[::]")):
            yield Finding(
                RISK,
                "listeners",
                f"{word.strip()} is open: every client that reaches it has all permissions.",
                "bind it to one address in listeners, or put a firewall before it",
            )


def _replication(config: BrokerConfig) -> Iterator[Finding]:
    if config.default_replication_factor == 1:
        yield Finding(
            HINT,
            "replication",
            "New topics get one replica.",
            "set default.replication.factor=3 where there are 3 brokers",
        )
    elif config.default_replication_factor < config.min_insync_replicas + 1:
        yield Finding(
            RISK,
            "replication",
            f"New topics get {config.default_replication_factor} replicas and need {config.min_insync_replicas} in "
            "sync: one broker down stops writing.",
            f"set min.insync.replicas={config.default_replication_factor - 1}",
        )
    if config.unclean_leader_election_enable:
        yield Finding(
            RISK, "settings", "Leaders that lack records may be elected.", "set unclean.leader.election.enable=false"
        )


def _unknown(config: BrokerConfig, properties: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(properties):
        try:
            config.get(name)
        except (ConfigError, KeyError, ValueError):
            yield Finding(HINT, "settings", f"No component reads {name}.", "remove it, or correct its name")
