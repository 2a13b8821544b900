"""Delegation tokens (KIP-48): a token is an id and the HMAC of the id, made with a secret that all nodes share.

A client logs in over SCRAM with the id as its user, the HMAC in base64 as its password, and the extension
`tokenauth=true`. Neither the metadata log nor any file contains the HMAC.
"""

from __future__ import annotations

import base64
import hmac

from ottla.sasl.scram import ITERATIONS_MIN, ScramKeys, scram_keys

__all__ = ["EXTENSION", "token_hmac", "token_keys"]

EXTENSION = {"tokenauth": "true"}


def token_hmac(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_keys(mechanism: str, secret: str, token_id: str) -> ScramKeys:
    """The keys with which a server checks a login with the token. Takes some milliseconds."""
    password = base64.b64encode(token_hmac(secret, token_id)).decode()
    # The password is random, so any salt is good enough that is the same on all nodes.
    salt = hmac.digest(secret.encode(), b"salt of " + token_id.encode(), "sha256")
    return scram_keys(mechanism, password, salt=salt, iterations=ITERATIONS_MIN)
