"""Configuration: one table of every broker and topic key, and the typed values made from it."""

from __future__ import annotations

from ottla.model.config.broker_config import BrokerConfig, complaint_about_key
from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.keys import ConfigError, ConfigKey, UpdateMode
from ottla.model.config.listeners import Endpoint, Voter
from ottla.model.config.log_config import LogConfig, validate_topic_overrides
from ottla.model.config.parse import decode_properties, format_properties, parse_properties
from ottla.model.config.topic_keys import TOPIC_KEYS
from ottla.model.config.values import ConfigType, Importance, Password, Setting

__all__ = [
    "BROKER_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "ConfigError",
    "ConfigKey",
    "ConfigType",
    "Setting",
    "Endpoint",
    "Importance",
    "LogConfig",
    "Password",
    "UpdateMode",
    "Voter",
    "complaint_about_key",
    "decode_properties",
    "format_properties",
    "parse_properties",
    "validate_topic_overrides",
]
