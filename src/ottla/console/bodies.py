"""The whole body of an answer: a single read of aiohttp gives only what has arrived so far."""

from __future__ import annotations

from aiohttp import ClientResponse

__all__ = ["whole_body"]

CHUNK_BYTES = 64 * 1024


async def whole_body(answer: ClientResponse, bytes_max: int) -> bytes:
    """Raises ValueError if it is longer than `bytes_max`."""
    content = bytearray()
    async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
        content += chunk
        if len(content) > bytes_max:
            raise ValueError(f"the answer has more than {bytes_max} bytes")
    return bytes(content)
