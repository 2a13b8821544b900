"""The transforms of Kafka Connect, as DataFrame expressions."""

from __future__ import annotations

from ottla.connect.plugins.transforms.cast import CastKey, CastValue
from ottla.connect.plugins.transforms.fields import (
    ExtractFieldKey,
    ExtractFieldValue,
    FlattenKey,
    FlattenValue,
    HeaderFromKey,
    HeaderFromValue,
    HoistFieldKey,
    HoistFieldValue,
    ReplaceFieldKey,
    ReplaceFieldValue,
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
    ValueToKey,
)
from ottla.connect.plugins.transforms.records import DropHeaders, Filter, InsertHeader, RegexRouter, TimestampRouter
from ottla.connect.plugins.transforms.times import TimestampConverterKey, TimestampConverterValue
from ottla.connect.plugins.transforms.values import InsertFieldKey, InsertFieldValue, MaskFieldKey, MaskFieldValue

__all__ = [
    "CastKey",
    "CastValue",
    "DropHeaders",
    "ExtractFieldKey",
    "ExtractFieldValue",
    "Filter",
    "FlattenKey",
    "FlattenValue",
    "HeaderFromKey",
    "HeaderFromValue",
    "HoistFieldKey",
    "HoistFieldValue",
    "InsertFieldKey",
    "InsertFieldValue",
    "InsertHeader",
    "MaskFieldKey",
    "MaskFieldValue",
    "RegexRouter",
    "ReplaceFieldKey",
    "ReplaceFieldValue",
    "SetSchemaMetadataKey",
    "SetSchemaMetadataValue",
    "TimestampConverterKey",
    "TimestampConverterValue",
    "TimestampRouter",
    "ValueToKey",
]
