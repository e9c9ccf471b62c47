"""What is read of providers' messages, and what is written for them."""

from __future__ import annotations

import json
import unittest
from types import SimpleNamespace
from typing import Any

from sidecall import Call, WrongMessage, _messages, pb

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


def result(id: str, content: str, **fields: Any) -> pb.ExecuteToolResponse:
    return pb.ExecuteToolResponse(tool_use_id=id, content=content, **fields)


PICTURE = pb.ContentBlock(type="image", mime_type="image/png", data=b"\x89PNG", size=4)


class ReadTest(unittest.TestCase):
    def test_calls_of_each_provider(self) -> None:
        for name, message, want, id, tokens in (
            ("anthropic", ANTHROPIC, [Call("toolu_1", "get_order", {"order_id": "A-1"}), Call("toolu_2", "list_orders", {})], "msg_1", 115),
            ("openai", CHAT, [Call("call_1", "get_order", '{"order_id":"A-1"}'), Call("call_2", "list_orders", "")], "chatcmpl-1", 15),
            ("openai-responses", RESPONSE, [Call("call_1", "get_order", '{"order_id":"A-1"}'), Call("call_2", "list_orders", "")], "resp_1", 15),
        ):  # fmt: skip
            for form, given in (("dict", message), ("object", objects(message))):
                with self.subTest(name, form=form):
                    turn = _messages.read(given)
                    self.assertEqual((turn.format, list(turn.calls), turn.id, turn.cut), (name, want, id, ""))
                    if form == "dict":
                        self.assertEqual(turn.tokens, tokens)

    def test_parts_of_a_completion(self) -> None:
        choice = CHAT["choices"][0]
        for given in (choice, choice["message"], objects(choice), objects(choice["message"])):
            turn = _messages.read(given)
            self.assertEqual((turn.format, turn.id, len(turn.calls)), ("openai", "", 2))

    def test_messages_without_calls(self) -> None:
        for name, message in (
            ("openai", {"role": "assistant", "content": "done"}),
            ("openai", {"role": "assistant", "content": None, "refusal": "no"}),
            ("anthropic", {"role": "assistant", "type": "message", "content": [{"type": "text", "text": "done"}]}),
            ("anthropic", {"role": "assistant", "content": []}),
            ("openai-responses", {"object": "response", "status": "completed", "output": []}),
        ):
            with self.subTest(message):
                turn = _messages.read(message)
                self.assertEqual((turn.format, turn.calls), (name, ()))
                self.assertEqual(_messages.answers(turn, []), [])

    def test_calls_of_a_message_that_was_cut_are_answered_and_not_run(self) -> None:
        incomplete = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        item = {**RESPONSE, "output": [{**RESPONSE["output"][2], "status": "incomplete"}]}
        for given, cut in (
            ({**ANTHROPIC, "stop_reason": "max_tokens"}, "max_tokens"),
            ({**ANTHROPIC, "stop_reason": "refusal"}, "refusal"),
            ({**CHAT, "choices": [{**CHAT["choices"][0], "finish_reason": "length"}]}, "length"),
            (incomplete, "max_output_tokens"),
            (item, "incomplete"),
        ):
            with self.subTest(cut):
                turn = _messages.read(given)
                self.assertEqual(turn.cut, cut)
                for call, answer in zip(turn.calls, _messages.not_run(turn), strict=True):
                    self.assertEqual(answer.tool_use_id, call.tool_use_id)
                    self.assertEqual(list(json.loads(answer.content)), ["code", "field", "constraint", "received", "hint"])
                    self.assertTrue(answer.is_error)
                    self.assertIn(cut, answer.error.constraint)

    def test_arguments_that_are_no_object_are_for_the_sidecar(self) -> None:
        block = {"type": "tool_use", "id": "1", "name": "t", "input": [1, 2]}
        self.assertEqual(_messages.read({**ANTHROPIC, "content": [block]}).calls[0].arguments, "[1, 2]")

    def test_what_is_no_message_of_an_assistant(self) -> None:
        for given, says in (
            ({"role": "user", "content": "hi"}, "role 'user'"),
            ({"foo": 1, "bar": 2}, "a dict of bar, foo"),
            ("text", "a str"),
            (None, "a NoneType"),
            ([CHAT], "a list"),
            ({"choices": []}, "with a choice"),
            ({"choices": [{"message": {"role": "user"}, "finish_reason": None}]}, "role 'user'"),
            ({"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "t", "input": "x"}}]}, "'custom'"),
            ({**RESPONSE, "output": [{"type": "custom_tool_call", "call_id": "c"}]}, "custom_tool_call"),
            ({"role": "assistant", "content": None, "tool_calls": [{"id": 7, "function": {"name": "t"}}]}, "as the id"),
            ({"role": "assistant", "content": None, "tool_calls": "x"}, "want a list in tool_calls"),
        ):  # fmt: skip
            with self.subTest(says), self.assertRaisesRegex(WrongMessage, says):
                _messages.read(given)


class WriteTest(unittest.TestCase):
    def answered(self, message: Any, *results: pb.ExecuteToolResponse) -> list[dict[str, Any]]:
        return list(_messages.answers(_messages.read(message), results))

    def test_anthropic(self) -> None:
        error = result("toolu_2", '{"code":"NOT_FOUND"}', is_error=True, recovery=pb.Recovery(context="Tried before: ..."))
        self.assertEqual(self.answered(ANTHROPIC, result("toolu_1", "shipped"), error), [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "shipped"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": [
                {"type": "text", "text": '{"code":"NOT_FOUND"}'}, {"type": "text", "text": "Tried before: ..."},
            ]},
        ]}])  # fmt: skip

    def test_anthropic_takes_pictures_and_documents(self) -> None:
        paper = pb.ContentBlock(type="resource", mime_type="application/pdf", data=b"%PDF", size=4)
        (message,) = self.answered(ANTHROPIC, result("toolu_1", "see", blocks=[PICTURE, paper]), result("toolu_2", ""))
        shown, empty = message["content"]
        self.assertEqual([b["type"] for b in shown["content"]], ["text", "image", "document"])
        self.assertEqual(shown["content"][1]["source"], {"type": "base64", "media_type": "image/png", "data": "iVBORw=="})
        self.assertEqual(empty["content"], "")

    def test_openai(self) -> None:
        error = result("call_2", '{"code":"NOT_FOUND"}', is_error=True, recovery=pb.Recovery(context="Tried before: ..."))
        self.assertEqual(self.answered(CHAT, result("call_1", "shipped", blocks=[PICTURE]), error), [
            {"role": "tool", "tool_call_id": "call_1", "content": "shipped"},
            {"role": "tool", "tool_call_id": "call_2", "content": '{"code":"NOT_FOUND"}\n\nTried before: ...'},
            {"role": "user", "content": [
                {"type": "text", "text": "Returned by call_1:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ]},
        ])  # fmt: skip

    def test_responses(self) -> None:
        nudged = result("call_2", "same", notices=["This is the third time."])
        self.assertEqual(self.answered(RESPONSE, result("call_1", "shipped", blocks=[PICTURE]), nudged), [
            {"type": "function_call_output", "call_id": "call_1", "output": [
                {"type": "input_text", "text": "shipped"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
            ]},
            {"type": "function_call_output", "call_id": "call_2", "output": "same\n\nThis is the third time."},
        ])  # fmt: skip

    def test_what_cannot_be_shown_is_said(self) -> None:
        blocks = [
            pb.ContentBlock(type="audio", mime_type="audio/wav", data=b"RIFF", size=4),
            pb.ContentBlock(type="resource", uri="file:///a.txt", text="hello"),
            pb.ContentBlock(type="resource_link", uri="https://example.com/a", name="a"),
            pb.ContentBlock(type="image", mime_type="image/png", size=9_000_000, output_ref="out_1"),
        ]
        (message, _) = self.answered(CHAT, result("call_1", "see", blocks=blocks), result("call_2", ""))
        self.assertEqual(message["content"].split("\n\n"), [
            "see", "(audio of audio/wav, 4 bytes: it cannot be shown here)", "file:///a.txt\nhello", "a https://example.com/a",
        ])  # fmt: skip

    def test_stop_is_told(self) -> None:
        turn = _messages.read(CHAT)
        told = _messages.answers(turn, [result("call_1", ""), result("call_2", "", stop=True)])
        self.assertTrue(told.stop)
        self.assertFalse(told.require_escalation)

    def test_tools(self) -> None:
        listed = [pb.Tool(name="t", description="d", input_schema_json='{"type":"object"}')]
        schema = {"type": "object"}
        self.assertEqual(_messages.tools(listed, "anthropic"), [{"name": "t", "description": "d", "input_schema": schema}])
        function = {"name": "t", "description": "d", "parameters": schema, "strict": False}
        self.assertEqual(_messages.tools(listed, "openai"), [{"type": "function", "function": function}])
        self.assertEqual(_messages.tools(listed, "openai-responses"), [{"type": "function", **function}])
        with self.assertRaisesRegex(WrongMessage, "want a format of anthropic, openai, openai-responses, got 'gemini'"):
            _messages.tools(listed, "gemini")  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
