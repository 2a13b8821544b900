"""The settings of a SASL listener (KIP-85, KIP-103): its mechanisms, and the users of PLAIN.

A setting of a listener stands in `listener.name.<name>.<key>`, and the users of PLAIN in
`listener.name.<name>.plain.sasl.jaas.config`, as `user_<name>="<password>"`. No class is loaded by the name of a login
module.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.config.keys import ConfigError
from ottla.sasl.jaas import JaasError, parse_jaas

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["SaslSettings", "sasl_settings"]

AVAILABLE = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER_PREFIX = "user_"


class SaslSettings(NamedTuple):
    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]
    # The size of a request before the login, and the delay of the answer to a failed login.
    request_bytes_max: int
    failure_delay_seconds: float

    def __repr__(self) -> str:
        """Without the passwords."""
        return f"SaslSettings(mechanisms={self.mechanisms!r})"

    def is_password(self, user: str, password: str) -> bool:
        """Whether the password is the user's. Takes as long for an unknown user."""
        known = self.plain_users.get(user)
        is_right = hmac.compare_digest((known or "").encode(), password.encode())
        return known is not None and is_right


def sasl_settings(config: BrokerConfig, listener_name: str) -> SaslSettings:
    """Raises ConfigError if the listener offers a mechanism that is not available, or a user cannot be read."""
    own = config.listener_overrides.get(listener_name, {})
    key, mechanisms = "sasl.enabled.mechanisms", config.sasl_enabled_mechanisms
    if key in own:
        key, mechanisms = _key(listener_name, key), tuple(part.strip() for part in own[key].split(",") if part.strip())
    missing = [mechanism for mechanism in mechanisms if mechanism not in AVAILABLE]
    if missing or not mechanisms:
        raise ConfigError(
            f"The listener {listener_name} offers {', '.join(missing) or 'no SASL mechanism'}; {key} must name some of "
            f"{', '.join(AVAILABLE)}.",
            key=key,
        )
    return SaslSettings(
        mechanisms=mechanisms,
        plain_users=_plain_users(listener_name, own) if "PLAIN" in mechanisms else {},
        request_bytes_max=config.sasl_server_max_receive_size,
        failure_delay_seconds=config.connection_failed_authentication_delay_ms / 1000,
    )


def _plain_users(listener_name: str, own: Mapping[str, str]) -> dict[str, str]:
    key = _key(listener_name, "plain.sasl.jaas.config")
    text = own.get("plain.sasl.jaas.config")
    if text is None:
        raise ConfigError(f"The listener {listener_name} offers PLAIN, so {key} must name its users.", key=key)
    try:
        entries = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"{key} cannot be read. {error}", key=key) from None
    others = [entry.module for entry in entries if entry.module != _PLAIN_MODULE]
    if others:
        raise ConfigError(f"{key} names the login module {others[0]}; only {_PLAIN_MODULE} is available.", key=key)
    return {
        option.removeprefix(_USER_PREFIX): password
        for entry in entries
        for option, password in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }


def _key(listener_name: str, key: str) -> str:
    return f"listener.name.{listener_name.lower()}.{key}"
