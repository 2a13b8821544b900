"""The error response of an API that has no `error_response` of its own.

Kafka's responses have an `error_code` at the top level, or one per topic, resource or partition of the request. This
module sets the top-level field if there is one. Otherwise it compares the fields of request and response: for every
array that both have under the same name, it answers each element of the request with its key fields and the error. An
API with another layout needs an `Api.error_response`.
"""

from __future__ import annotations

import sys
from typing import Any

from ottla.model.errors import KafkaError
from ottla.wire.api import API_SPECS, ApiKey

__all__ = ["generic_error_response"]


def generic_error_response(api_key: int, request: Any, error: KafkaError) -> Any:
    """A response of this API with the error in every error field."""
    response = API_SPECS[ApiKey(api_key)].response_class()
    _fill(response, request, error)
    return response


def _fill(response: Any, request: Any, error: KafkaError) -> None:
    names = type(response).__slots__
    if "error_code" in names:
        response.error_code = int(error.code)
        if "error_message" in names:
            response.error_message = error.message
    for name, kind, *_ in type(response).FIELDS:
        if name not in _slots(request):
            continue
        value = getattr(request, name)
        if not kind.startswith("["):
            if name not in ("error_code", "error_message"):
                setattr(response, name, value)
        elif isinstance(value, list):
            element_class = getattr(sys.modules[type(response).__module__], kind[1:-1], None)
            if element_class is not None:
                setattr(response, name, [_element(element_class, element, error) for element in value])


def _element(element_class: Any, element: Any, error: KafkaError) -> Any:
    answered = element_class()
    if _slots(element):
        _fill(answered, element, error)
    else:
        # An element that is a plain value (a name, a partition number) is set as the first field of the answer.
        setattr(answered, element_class.FIELDS[0][0], element)
        if "error_code" in element_class.__slots__:
            answered.error_code = int(error.code)
    return answered


def _slots(value: Any) -> tuple[str, ...]:
    return getattr(type(value), "__slots__", ())
