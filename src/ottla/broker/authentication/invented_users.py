"""The SCRAM answer for a user who does not exist: a salt and iterations that an existing user could have.

Apache Kafka closes the exchange of an unknown user at once. An invented answer helps only if it is indistinguishable
from a stored one:

- It is the same on every node and after a restart. So it is derived from a secret that all nodes
  share: the keys of the first two stored credentials, which no answer contains. It changes with these credentials.
  One credential is not enough: its user knows the password, and could compute the answers for unknown users.
- Its iterations, and the length and alphabet of its salt, are those of a stored credential. Kafka's tools make salts of
  the digits and letters of base 36, and other tools make random bytes. Where credentials differ in this, the name of
  the user selects one of the forms.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from ottla.sasl.scram import InventedKeys, invented_keys

if TYPE_CHECKING:
    from ottla.metadata.publishers import Publishers

__all__ = ["InventedUsers"]

_BASE_36 = b"0123456789abcdefghijklmnopqrstuvwxyz"
# The credentials of a cluster have few forms, because few tools created them.
FORMS_MAX = 100


class _Form(NamedTuple):
    iterations: int
    salt_bytes: int
    is_base_36: bool


class InventedUsers:
    def __init__(self, metadata: Publishers) -> None:
        self._metadata = metadata
        # The credentials that the secret and the forms were computed for, by mechanism.
        self._computed: dict[int, tuple[object, bytes, list[_Form]]] = {}

    def invent(self, mechanism: int, user: str) -> InventedKeys:
        """The same answer for the same name, as long as the credentials of the cluster have the same forms."""
        stored: Mapping[tuple[str, int], tuple[bytes, bytes, bytes, int]] = self._metadata.image.scram
        computed = self._computed.get(mechanism)
        if computed is None or computed[0] is not stored:
            computed = self._computed[mechanism] = (stored, *_secret_and_forms(stored, mechanism))
        _, secret, forms = computed
        if not forms:
            return invented_keys(user)
        drawn = hmac.digest(secret, user.encode(), "sha512")
        form = forms[int.from_bytes(drawn[:4], "big") % len(forms)]
        salt = hmac.digest(secret, b"salt of " + user.encode(), "sha512")
        while len(salt) < form.salt_bytes:
            salt += hmac.digest(secret, salt, "sha512")
        salt = salt[: form.salt_bytes]
        return InventedKeys(
            bytes(_BASE_36[byte % 36] for byte in salt) if form.is_base_36 else salt,
            form.iterations,
        )


def _secret_and_forms(
    stored: Mapping[tuple[str, int], tuple[bytes, bytes, bytes, int]], mechanism: int
) -> tuple[bytes, list[_Form]]:
    credentials = [(user, credential) for (user, number), credential in stored.items() if number == mechanism]
    if not credentials:
        return b"", []
    first = [credential for _, credential in nsmallest(2, credentials, key=lambda entry: entry[0])]
    stored_keys, server_keys = (b"".join(bytes(credential[part]) for credential in first) for part in (1, 2))
    forms: set[_Form] = set()
    for _, (salt, _, _, iterations) in credentials:
        if len(forms) < FORMS_MAX:
            forms.add(_Form(iterations, len(salt), all(byte in _BASE_36 for byte in salt)))
    return hmac.digest(stored_keys, b"unknown users" + server_keys, "sha512"), sorted(forms)
