"""All clients read and write the same: clients/testdata/turns.json."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from sidecall import WrongMessage, _messages, pb

VECTORS = json.loads((Path(__file__).parents[2] / "testdata" / "turns.json").read_text(encoding="utf-8"))


def loose(text: str) -> Any:
    """A JSON value in which nothing of how it was written is left; a text that is none
    is itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class VectorTest(unittest.TestCase):
    def test_turns_of_providers(self) -> None:
        self.assertGreater(len(VECTORS), 30)
        for v in VECTORS:
            with self.subTest(v["name"]):
                if v.get("refused"):
                    with self.assertRaises(WrongMessage):
                        _messages.read(v["message"])
                    continue
                turn = _messages.read(v["message"])
                want = v["turn"]
                self.assertEqual(
                    (turn.format, turn.id, turn.cut, turn.reason, turn.tokens, list(turn.messages)),
                    tuple(want[name] for name in ("format", "id", "cut", "reason", "tokens", "messages")),
                )
                self.assertEqual(
                    [(c.tool_use_id, c.tool_name, loose(c.arguments_json())) for c in turn.calls],
                    [(c["id"], c["tool"], loose(c["arguments"])) for c in want["calls"]],
                )
                results = [json_format.ParseDict(r, pb.ExecuteToolResponse()) for r in v.get("results", [])]
                if turn.cut:
                    results = _messages.not_run(turn)
                appended = list(_messages.answers(turn, results))
                self.assertEqual(appended, v["appended"])


if __name__ == "__main__":
    unittest.main()
