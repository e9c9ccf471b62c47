"""What a framework shows of a result to its model, which has words and pictures of its own
for it."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from sidecall.v1 import tool_service_pb2 as pb

PICTURES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))


def texts_of(result: pb.ExecuteToolResponse, pictures: frozenset[str] = PICTURES) -> list[str]:
    """All that a result has in words: its content word for word, then what was tried
    before it, what is to be noticed, and blocks that are text or cannot be shown."""
    texts = [result.content, result.recovery.context, *result.notices]
    for block in result.blocks:
        if block.data and block.mime_type in pictures:
            continue
        if block.text:
            texts.append(f"{block.uri}\n{block.text}" if block.uri else block.text)
        elif block.type == "resource_link":
            texts.append(f"{block.name} {block.uri}".strip())
        elif not block.output_ref:  # of one with a handle the notices speak
            texts.append(f"({block.type} of {block.mime_type or 'unknown type'}, {block.size} bytes: it cannot be shown here)")
    return [text for text in texts if text]


def pictures_of(result: pb.ExecuteToolResponse, types: frozenset[str] = PICTURES) -> Iterator[tuple[str, str]]:
    for block in result.blocks:
        if block.data and block.mime_type in types:
            yield block.mime_type, base64.b64encode(block.data).decode("ascii")
