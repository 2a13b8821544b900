"""Checkers of credentials for SASL mechanisms, besides passwords in the configuration and the metadata.

`sasl.server.callback.handler.class` selects the checker. The names of Apache Kafka's classes select Ottla's equivalent;
any other value is the dotted name of a Python class (`ottla.sasl.callbacks`). Only the node's own properties
file is read: a client that may change settings must not be able to load classes or to replace an identity provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.broker.authentication.listener_settings import ListenerSettings
from ottla.broker.authentication.settings import jaas_options
from ottla.model.config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.model.deferred import Deferred
from ottla.model.ports import Lane
from ottla.sasl.exchange import ServerExchange
from ottla.sasl.oauthbearer import BearerToken
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.sasl.scram import ScramKeys

if TYPE_CHECKING:
    from ottla.model.ports import World

__all__ = ["Checkers", "FetchDocument"]

# Reads a document from an address, with a time-out in seconds. It blocks, and raises OSError.
FetchDocument = Callable[[str, float], bytes]

_KEY = "sasl.server.callback.handler.class"
_SECURITY = "org.apache.kafka.common.security."
_BUILT_IN = {
    "PLAIN": (f"{_SECURITY}plain.internals.PlainServerCallbackHandler",),
    "SCRAM-SHA-256": (f"{_SECURITY}scram.internals.ScramServerCallbackHandler",),
    "SCRAM-SHA-512": (f"{_SECURITY}scram.internals.ScramServerCallbackHandler",),
    "OAUTHBEARER": (
        f"{_SECURITY}oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{_SECURITY}oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    ),
}
_UNSECURED = f"{_SECURITY}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_METHODS = {
    "PLAIN": "check_password",
    "SCRAM-SHA-256": "find_credential",
    "SCRAM-SHA-512": "find_credential",
    "OAUTHBEARER": "validate_token",
}
_MODULES = {
    "PLAIN": f"{_SECURITY}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}


class Checkers:
    """Made once, when the node starts. Raises ConfigError."""

    def __init__(
        self, config: BrokerConfig, listener_name: str, mechanisms: tuple[str, ...], world: World, fetch: FetchDocument
    ) -> None:
        is_static = not config.dynamic and not config.dynamic_defaults
        self._settings = ListenerSettings(config if is_static else BrokerConfig(config.static), listener_name)
        self._world = world
        # For PLAIN; None if the passwords are in the configuration.
        self.check_password: Callable[[str, str], Deferred[bool]] | None = None
        # By SCRAM mechanism. The credentials of a mechanism that is not in the table are in the metadata.
        self.find_credential: dict[str, Callable[[str], Deferred[ScramKeys | None]]] = {}
        # For OAUTHBEARER.
        self.validate_token: Callable[[str], BearerToken | Deferred[BearerToken]] | None = None
        # For GSSAPI.
        self.begin_kerberos: Callable[[], ServerExchange] | None = None
        for mechanism in mechanisms:
            self._prepare(mechanism, fetch)

    def _prepare(self, mechanism: str, fetch: FetchDocument) -> None:
        if mechanism == "GSSAPI":
            from ottla.broker.authentication.kerberos_settings import kerberos_exchanges

            self.begin_kerberos = kerberos_exchanges(self._settings, self._options(mechanism), self._world)
        if mechanism not in _METHODS:
            return
        name = self._settings.get(_KEY, mechanism)
        assert name is None or isinstance(name, str)
        if name is not None and name != _UNSECURED and name not in _BUILT_IN[mechanism]:
            self._use(mechanism, _plug_in(name, self._settings, mechanism, self._options(mechanism)))
        elif mechanism == "OAUTHBEARER":
            # Imported here: most nodes have no tokens.
            from ottla.broker.authentication.oauth_settings import signed_tokens, unsecured_tokens

            if name == _UNSECURED:
                tokens = unsecured_tokens(self._options(mechanism), self._settings, self._world)
                self.validate_token = tokens.validate
            else:
                self.validate_token = signed_tokens(self._settings, self._world, fetch).validate
        elif name == _UNSECURED:
            raise ConfigError(f"{self._settings.source(_KEY, mechanism)} is a class for OAUTHBEARER.", key=_KEY)

    def _use(self, mechanism: str, check: Callable[..., Any]) -> None:
        """The methods of a plug-in may block, so they run on workers."""
        workers = self._world.workers.lane(Lane.LOGINS)

        def later(*arguments: Any) -> Deferred[Any]:
            return workers.submit(check, *arguments)

        if mechanism == "PLAIN":
            self.check_password = later
        elif mechanism in SCRAM_MECHANISMS:
            self.find_credential[mechanism] = later
        else:
            self.validate_token = later

    def _options(self, mechanism: str) -> Mapping[str, str]:
        entries = jaas_options(self._settings, mechanism, _MODULES[mechanism])
        return {name: value for entry in entries for name, value in entry.options.items()}


def _plug_in(name: str, settings: ListenerSettings, mechanism: str, options: Mapping[str, str]) -> Callable[..., Any]:
    """The method of a Python class that checks credentials of the mechanism."""
    key, method = settings.source(_KEY, mechanism), _METHODS[mechanism]
    module, _, attribute = name.rpartition(".")
    try:
        plugin = getattr(import_module(module), attribute) if module else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{key} is {name}, which cannot be imported ({error}). It must be the dotted name of a Python class.",
            key=key,
        ) from error
    if not callable(plugin):
        raise ConfigError(f"{key} is {name}, which is no class.", key=key)
    check = getattr(plugin(options), method, None)
    if not callable(check):
        raise ConfigError(f"{key} is {name}, which has no method {method}: see ottla.sasl.callbacks.", key=key)
    function: Callable[..., Any] = check
    return function
