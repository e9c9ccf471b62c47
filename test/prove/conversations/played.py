"""The provider that the loops ask: each of its answers has new ids, as a model's have."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e" / "python"))

from provider import Heard, Provider, Say  # noqa: E402

TURNS = 2


def say(heard: Heard) -> Say:
    if heard.turns % (TURNS + 1) == TURNS:
        return Say("All is paid.")
    return Say("One moment.", calls=[("pay", {"order": uuid.uuid4().hex}) for _ in range(heard.turns + 1)])


with Provider(say, ids=lambda _turn, _i: "call_" + uuid.uuid4().hex[:16]) as provider:
    print(provider.url, flush=True)
    sys.stdin.read()
