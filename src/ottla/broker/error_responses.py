"""The error response of an API that has no `error_response` of its own.

Kafka's responses carry their errors in one of a few shapes: an `error_code` at the top, or one per topic, resource or
partition that mirrors the request. This fills the code in at the top when there is a field for it; otherwise it walks
request and response side by side, and for every array that both have under the same name, answers each element with
its key fields copied and the error set. An API of another shape needs an `Api.error_response`.
"""

from __future__ import annotations

import sys
from typing import Any

from ottla.model.errors import KafkaError
from ottla.wire.api import API_SPECS, ApiKey

__all__ = ["generic_error_response"]


def generic_error_response(api_key: int, request: Any, error: KafkaError) -> Any:
    """A response of this API with the error in every field for it."""
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
        # An array of plain values in the request (names, partition numbers) becomes the first field of the answer.
        setattr(answered, element_class.FIELDS[0][0], element)
        if "error_code" in element_class.__slots__:
            answered.error_code = int(error.code)
    return answered


def _slots(value: Any) -> tuple[str, ...]:
    return getattr(type(value), "__slots__", ())
