"""What providers say, a sidecar that reads it, and what is sent of it."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sidecall import WrongMessage, _messages, pb

ANTHROPIC = {
    "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_use", "id": "toolu_1", "name": "get_order", "input": {"order_id": "A-1"}},
        {"type": "tool_use", "id": "toolu_2", "name": "list_orders", "input": {}},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100},
}
CHAT = {
    "id": "chatcmpl-1", "object": "chat.completion",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id":"A-1"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "list_orders", "arguments": ""}},
        ]},
    }],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
RESPONSE = {
    "id": "resp_1", "object": "response", "status": "completed",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_order", "arguments": '{"order_id":"A-1"}'},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "list_orders", "arguments": ""},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
}  # fmt: skip


def objects(of: Any) -> Any:
    """The same as an SDK would give it."""
    if isinstance(of, list):
        return [objects(value) for value in of]
    if not isinstance(of, dict):
        return of
    fields = {k: v if k in ("input", "usage") else objects(v) for k, v in of.items()}
    return SimpleNamespace(**fields, model_dump=lambda **_: of)


def read(text: str) -> tuple[pb.ReadMessageResponse, list[pb.ExecuteToolRequest]]:
    """What a sidecar reads in a message, as far as the tests need it; ValueError is why it
    reads none."""
    m = json.loads(text)
    out = pb.ReadMessageResponse(id=m.get("id") or "", exit_reason="end_turn")
    if "choices" in m:
        message, usage = m["choices"][0]["message"], m.get("usage", {})
        out.provider, out.tokens, own = "openai", usage.get("total_tokens", 0), [message]
        found = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
    elif m.get("object") == "response":
        out.provider, own = "openai-responses", m["output"]
        found = [(i["call_id"], i["name"], i["arguments"]) for i in own if i.get("type") == "function_call"]
    elif m.get("role") == "assistant":
        out.provider, own = "anthropic", [{"role": "assistant", "content": m["content"]}]
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens")
        out.tokens = sum(m.get("usage", {}).get(name, 0) for name in names)
        found = [(b["id"], b["name"], json.dumps(b["input"])) for b in m["content"] if b["type"] == "tool_use"]
        if m["stop_reason"] in ("max_tokens", "refusal"):
            out.cut = out.exit_reason = m["stop_reason"]
    else:
        raise ValueError("want the message of an assistant")
    out.calls = len(found)
    out.messages_json.extend(json.dumps(one) for one in own)
    return out, [pb.ExecuteToolRequest(tool_use_id=id, tool_name=name, arguments_json=args) for id, name, args in found]


def answer(provider: str, results: list[Any]) -> pb.RunMessageResponse:
    """What a sidecar says of results."""
    if provider == "anthropic":
        blocks = [
            {"type": "tool_result", "tool_use_id": r.tool_use_id, "content": r.content, **({"is_error": True} if r.is_error else {})}
            for r in results
        ]
        messages: list[Any] = [{"role": "user", "content": blocks}] if blocks else []
    elif provider == "openai":
        messages = [{"role": "tool", "tool_call_id": r.tool_use_id, "content": r.content} for r in results]
    else:
        messages = [{"type": "function_call_output", "call_id": r.tool_use_id, "output": r.content} for r in results]
    return pb.RunMessageResponse(
        messages_json=[json.dumps(m) for m in messages], results=results, stop=any(r.stop for r in results),
        require_escalation=any(r.recovery.require_escalation for r in results),
        budget_exceeded=bool(results) and all(r.error.code == "BUDGET_EXCEEDED" for r in results),
    )  # fmt: skip


def run(request: pb.RunMessageRequest, execute: Callable[[Any], Any]) -> pb.RunMessageResponse:
    """Runs the calls of a message as one batch."""
    turn, calls = read(request.message_json)
    if turn.cut:
        return answer(turn.provider, [pb.ExecuteToolResponse(tool_use_id=c.tool_use_id, is_error=True) for c in calls])
    batch = pb.ExecuteToolsRequest(calls=[share(call, request.shared, turn.id) for call in calls])
    return answer(turn.provider, list(execute(batch).results))


def share(call: Any, shared: Any, turn: str) -> pb.ExecuteToolRequest:
    one = pb.ExecuteToolRequest()
    one.CopyFrom(shared)
    one.MergeFrom(call)
    one.turn_id = shared.turn_id or turn
    one.message_id = shared.message_id or one.turn_id
    return one


class SentTest(unittest.TestCase):
    def test_what_an_sdk_gives_is_sent_as_json(self) -> None:
        for message in (ANTHROPIC, CHAT, RESPONSE):
            self.assertEqual(json.loads(_messages.sent(objects(message))), message)
            self.assertEqual(_messages.sent(message), json.dumps(message))

    def test_numbers_and_halves_of_characters_stay_what_they_are(self) -> None:
        text = '{"n": 12345678901234567890.10}'
        self.assertEqual(_messages.sent(text), text)
        self.assertEqual(_messages.sent({"n": 10**30, "s": "é\ud83d"}), '{"n": 1' + "0" * 30 + ', "s": "é\\ud83d"}')

    def test_what_json_cannot_hold(self) -> None:
        for message in ({1, 2}, {"n": float("nan")}, object()):
            with self.assertRaisesRegex(WrongMessage, "want what JSON can hold"):
                _messages.sent(message)


if __name__ == "__main__":
    unittest.main()
