"""The settings of GSSAPI: the key of the service, and the rules that shorten Kerberos names.

The login module of `listener.name.<name>.gssapi.sasl.jaas.config` names the file of keys and the principal, as for
Apache Kafka:

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/kafka.keytab"
        principal="kafka/host@REALM";
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.model.config.keys import ConfigError
from ottla.model.ports import Lane
from ottla.sasl.gssapi_exchange import GssapiServer
from ottla.sasl.kerberos_names import KerberosNames, RuleError

if TYPE_CHECKING:
    from ottla.broker.authentication.listener_settings import ListenerSettings
    from ottla.model.ports import World

__all__ = ["kerberos_exchanges"]

GSSAPI = "GSSAPI"


def kerberos_exchanges(
    settings: ListenerSettings, options: Mapping[str, str], world: World
) -> Callable[[], GssapiServer]:
    """Makes the server's end of an exchange. Raises ConfigError if the service has no key."""
    key = settings.key("sasl.jaas.config", GSSAPI)
    if find_spec("gssapi") is None:
        raise ConfigError("GSSAPI needs the package gssapi: pip install '.[gssapi]' in a checkout.", key=key)
    keytab, principal = options.get("keyTab"), options.get("principal")
    if not keytab or not principal:
        raise ConfigError(
            f"The listener {settings.listener_name} offers GSSAPI, so {key} must name keyTab and principal.", key=key
        )
    service = settings.get("sasl.kerberos.service.name", GSSAPI)
    if isinstance(service, str) and service != principal.partition("/")[0].partition("@")[0]:
        raise ConfigError(f"sasl.kerberos.service.name is {service}, but {key} has the principal {principal}.", key=key)
    names = _names(settings, principal)
    import gssapi

    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        # No other mechanism of GSSAPI: SPNEGO would be one.
        mechanisms = [gssapi.MechType.kerberos]
        credentials = gssapi.Credentials(name=name, usage="accept", mechs=mechanisms, store={"keytab": keytab})
    except gssapi.exceptions.GSSError as error:
        raise ConfigError(f"{key} names {keytab}, which has no key of {principal}: {error}.", key=key) from None
    workers = world.workers.lane(Lane.LOGINS)

    def begin() -> GssapiServer:
        return GssapiServer(credentials, names.short, lambda step, token: workers.submit(step, token))

    return begin


def _names(settings: ListenerSettings, principal: str) -> KerberosNames:
    key = settings.source("sasl.kerberos.principal.to.local.rules", GSSAPI)
    rules = settings.get("sasl.kerberos.principal.to.local.rules", GSSAPI)
    assert isinstance(rules, tuple)
    try:
        return KerberosNames(rules, principal.rpartition("@")[2])
    except RuleError as error:
        raise ConfigError(f"{key} cannot be read: {error}.", key=key) from None
