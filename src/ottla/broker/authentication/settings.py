"""The settings of a SASL listener (KIP-85, KIP-103): its mechanisms, and the users of PLAIN.

The users of PLAIN stand in `listener.name.<name>.plain.sasl.jaas.config`, as `user_<name>="<password>"`. No class is
loaded by the name of a login module.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.authentication.listener_settings import ListenerSettings
from ottla.model.config.keys import ConfigError
from ottla.sasl.jaas import JaasEntry, JaasError, parse_jaas

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["AVAILABLE", "SaslSettings", "jaas_options", "offered_mechanisms", "sasl_settings"]

AVAILABLE = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER_PREFIX = "user_"


class SaslSettings(NamedTuple):
    mechanisms: tuple[str, ...]
    # The hashes of the passwords, by user.
    plain_users: Mapping[str, bytes]
    # The size of a request before the login, and the delay of the answer to a failed login.
    request_bytes_max: int
    failure_delay_seconds: float
    # For how long a login is valid, by mechanism; 0 for a login without an end (connections.max.reauth.ms).
    session_ms: Mapping[str, int]

    def __repr__(self) -> str:
        """The representation without the passwords."""
        return f"SaslSettings(mechanisms={self.mechanisms!r})"

    def reauth_ms(self, mechanism: str) -> int:
        return self.session_ms.get(mechanism, 0)

    def is_password(self, user: str, password: str) -> bool:
        """True if the password is the user's. An unknown user takes the same steps, so the time reveals nothing."""
        is_right = hmac.compare_digest(self.plain_users.get(user, _NO_HASH), _hash(password))
        return is_right and user in self.plain_users


def sasl_settings(config: BrokerConfig, listener_name: str, *, is_plain_elsewhere: bool = False) -> SaslSettings:
    """Raises ConfigError if the listener offers a mechanism that is not available, or a user cannot be read.

    `is_plain_elsewhere` is true if the passwords of PLAIN are not in the configuration.
    """
    settings = ListenerSettings(config, listener_name)
    mechanisms = offered_mechanisms(settings)
    session_ms = {mechanism: settings.get("connections.max.reauth.ms", mechanism) for mechanism in mechanisms}
    return SaslSettings(
        mechanisms=mechanisms,
        plain_users=_plain_users(settings) if "PLAIN" in mechanisms and not is_plain_elsewhere else {},
        request_bytes_max=config.sasl_server_max_receive_size,
        failure_delay_seconds=config.connection_failed_authentication_delay_ms / 1000,
        session_ms={mechanism: value for mechanism, value in session_ms.items() if isinstance(value, int)},
    )


def offered_mechanisms(settings: ListenerSettings) -> tuple[str, ...]:
    key = settings.source("sasl.enabled.mechanisms")
    mechanisms = settings.get("sasl.enabled.mechanisms")
    assert isinstance(mechanisms, tuple)
    missing = [mechanism for mechanism in mechanisms if mechanism not in AVAILABLE]
    if missing or not mechanisms:
        raise ConfigError(
            f"The listener {settings.listener_name} offers {', '.join(missing) or 'no SASL mechanism'}; {key} must "
            f"name some of {', '.join(AVAILABLE)}.",
            key=key,
        )
    return mechanisms


def jaas_options(settings: ListenerSettings, mechanism: str, module: str) -> list[JaasEntry]:
    """The login modules of a mechanism, if any. Raises ConfigError for another module than `module`."""
    key = settings.key("sasl.jaas.config", mechanism)
    text = settings.own_text("sasl.jaas.config", mechanism)
    if text is None:
        return []
    try:
        entries = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"{key} cannot be read. {error}", key=key) from None
    other_modules = [entry.module for entry in entries if entry.module != module]
    if other_modules:
        raise ConfigError(f"{key} names the login module {other_modules[0]}; only {module} is available.", key=key)
    return entries


def _hash(password: str) -> bytes:
    """Hashes a password, so that the time of a comparison does not reveal its length."""
    return hashlib.sha256(password.encode()).digest()


# Compared with the passwords of unknown users.
_NO_HASH = bytes(hashlib.sha256().digest_size)


def _plain_users(settings: ListenerSettings) -> dict[str, bytes]:
    entries = jaas_options(settings, "PLAIN", _PLAIN_MODULE)
    if not entries:
        key = settings.key("sasl.jaas.config", "PLAIN")
        raise ConfigError(f"The listener {settings.listener_name} offers PLAIN, so {key} must name its users.", key=key)
    return {
        option.removeprefix(_USER_PREFIX): _hash(password)
        for entry in entries
        for option, password in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }
