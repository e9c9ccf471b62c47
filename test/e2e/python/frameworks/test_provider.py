"""The played provider refuses what the real ones refuse: each conversation is fed to it
whole first, and then broken in one place."""

from __future__ import annotations

import copy
import json
import unittest
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from provider import Provider, Say

Body = dict[str, Any]
Break = Callable[[Body], Any]


def _use(id: str) -> Body:
    return {"type": "tool_use", "id": id, "name": "pay", "input": {}}


def _result(id: str, content: Any = "paid", **more: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


ANTHROPIC: Body = {
    "model": "m", "max_tokens": 10,
    "tools": [{"name": "pay", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, _use("a"), _use("b")]},
        {"role": "user", "content": [_result("a"), _result("b"), {"type": "text", "text": "Go on."}]},
    ],
}  # fmt: skip

_ORPHAN = "`tool_use` ids were found without `tool_result` blocks immediately after"

BROKEN_ANTHROPIC: list[tuple[str, Break]] = [
    ("max_tokens: Field required", lambda b: b.pop("max_tokens")),
    ("at least one message", lambda b: b["messages"].clear()),
    ('first message must use the "user" role', lambda b: b["messages"].pop(0)),
    (_ORPHAN, lambda b: b["messages"].pop()),
    (_ORPHAN, lambda b: b["messages"][2]["content"].pop(0)),
    (_ORPHAN, lambda b: b["messages"][2]["content"].insert(0, b["messages"][2]["content"].pop())),  # text before results
    (_ORPHAN, lambda b: b["messages"].insert(2, {"role": "assistant", "content": "Hm."}) or b["messages"].pop()),
    ("unexpected `tool_use_id`", lambda b: b["messages"][2]["content"].append(_result("c"))),
    ("unexpected `tool_use_id`", lambda b: b["messages"].pop(1)),
    ("multiple `tool_result` blocks with id: a", lambda b: b["messages"][2]["content"].insert(0, _result("a"))),
    ("`tool_use` ids must be unique", lambda b: b["messages"][1]["content"].append(_use("a"))),
    ("`tool_use` ids must be unique", lambda b: b["messages"].extend([
        {"role": "assistant", "content": [_use("a")]}, {"role": "user", "content": [_result("a")]}])),
    ("String should match pattern", lambda b: b["messages"][1]["content"][1].update(id="a b")),
    ("String should match pattern", lambda b: b["messages"][1]["content"][1].update(id="")),
    ("text content blocks must be non-empty", lambda b: b["messages"][1]["content"][0].update(text="")),
    ("text content blocks must be non-empty", lambda b: b["messages"][2]["content"][0].update(content=[{"type": "text", "text": ""}])),
    ("content cannot be empty if `is_error` is true", lambda b: b["messages"][2]["content"][0].update(content="", is_error=True)),
    ("must have non-empty content", lambda b: b["messages"][1].update(content=[])),
    ("should be a valid dictionary", lambda b: b["messages"][1]["content"][1].update(input="{}")),
    ("can only be in `user` messages", lambda b: b["messages"][1]["content"].append(_result("a"))),
    ("can only be in `assistant` messages", lambda b: b["messages"][0].update(content=[_use("z")])),
    ("Input should be 'user' or 'assistant'", lambda b: b["messages"][0].update(role="system")),
    ("input_schema.type", lambda b: b["tools"][0].update(input_schema={})),
    ("name: String should match", lambda b: b["tools"][0].update(name="pay me")),
]  # fmt: skip


def _call(id: str) -> Body:
    return {"id": id, "type": "function", "function": {"name": "pay", "arguments": "{}"}}


CHAT: Body = {
    "model": "m",
    "tools": [{"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": None, "tool_calls": [_call("a"), _call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "paid"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "paid"}]},
        {"role": "user", "content": "Go on."},
    ],
}  # fmt: skip

_UNANSWERED = "must be followed by tool messages responding to each 'tool_call_id'"

BROKEN_CHAT: list[tuple[str, Break]] = [
    (_UNANSWERED, lambda b: b["messages"].pop(3)),
    (_UNANSWERED, lambda b: b["messages"].insert(2, b["messages"].pop())),  # something in between
    (_UNANSWERED, lambda b: b.update(messages=b["messages"][:3])),
    ("must be a response to a preceeding message", lambda b: b["messages"].pop(1)),
    ("must be a response to a preceeding message", lambda b: b["messages"][2].update(tool_call_id="c")),
    ("must be a response to a preceeding message", lambda b: b["messages"].insert(3, b["messages"][2])),
    ("Duplicate value", lambda b: b["messages"][1]["tool_calls"].append(_call("a"))),
    ("Missing required parameter", lambda b: b["messages"][1]["tool_calls"][0].update(id="")),
    ("string too long", lambda b: b["messages"][1]["tool_calls"][0].update(id="a" * 41)),
    ("empty array", lambda b: b["messages"][1].update(tool_calls=[])),
    ("expected a string, got null", lambda b: b["messages"].append({"role": "assistant", "content": None})),
    ("expected a string", lambda b: b["messages"][1]["tool_calls"][0]["function"].update(arguments={})),
    ("does not match pattern", lambda b: b["messages"][1]["tool_calls"][0]["function"].update(name="pay me")),
    ("Supported values are: 'text'", lambda b: b["messages"][2].update(content=[{"type": "image_url"}])),
    ("expected one of a string or array", lambda b: b["messages"][2].update(content=None)),
    ("schema must be a JSON Schema", lambda b: b["tools"][0]["function"].update(parameters={"type": "string"})),
    ("in strict mode", lambda b: b["tools"][0]["function"].update(strict=True)),
    ("empty array", lambda b: b["messages"].clear()),
    ("streams Anthropic's messages only", lambda b: b.update(stream=True)),
]  # fmt: skip


def _function_call(id: str) -> Body:
    return {"type": "function_call", "id": "fc_" + id, "call_id": id, "name": "pay", "arguments": "{}"}


def _output(id: str) -> Body:
    return {"type": "function_call_output", "call_id": id, "output": "paid"}


RESPONSES: Body = {
    "model": "m",
    "tools": [{"type": "function", "name": "pay", "parameters": {"type": "object"}}],
    "input": [{"role": "user", "content": "Pay."}, _function_call("a"), _function_call("b"), _output("a"), _output("b")],
}

BROKEN_RESPONSES: list[tuple[str, Break]] = [
    ("No tool output found for function call b", lambda b: b["input"].pop()),
    ("No tool call found for function call output with call_id a", lambda b: b["input"].pop(1)),
    ("No tool call found", lambda b: b["input"].append(_output("a"))),
    ("No tool call found", lambda b: b["input"].insert(1, b["input"].pop(3))),  # before its call
    ("Duplicate item found with id fc_a", lambda b: b["input"].append(_function_call("a"))),
    ("Duplicate function call", lambda b: b["input"][2].update(call_id="a")),
    ("Expected a string with minimum length 1", lambda b: b["input"][1].update(call_id="")),
    ("begins with 'fc'", lambda b: b["input"][1].update(id="call_1")),
    ("expected a string", lambda b: b["input"][1].update(arguments={})),
    ("expected one of a string or array", lambda b: b["input"][3].update(output=None)),
    ("Invalid value: 'text'", lambda b: b["input"][3].update(output=[{"type": "text"}])),
    ("'input[0].content'", lambda b: b["input"][0].update(content="")),
    ("Missing required parameter: 'input'", lambda b: b["input"].clear()),
]


class ProviderTest(unittest.TestCase):
    def setUp(self) -> None:
        provider = Provider([Say("first"), Say("second"), Say("third")])
        provider.__enter__()
        self.addCleanup(provider.__exit__, None, None, None)
        self.url = provider.url

    def post(self, path: str, body: Body) -> tuple[int, Any]:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            with e:
                return e.code, json.load(e)

    def check(self, path: str, whole: Body, broken: list[tuple[str, Break]]) -> None:
        status, answer = self.post(path, whole)
        self.assertEqual(status, 200, answer)
        self.assertIn("second", json.dumps(answer))  # it counts its own turns
        for words, breaks in broken:
            with self.subTest(words):
                body = copy.deepcopy(whole)
                breaks(body)
                status, answer = self.post(path, body)
                self.assertEqual(status, 400, answer)
                self.assertIn(words, answer["error"]["message"])

    def test_anthropic(self) -> None:
        self.check("/v1/messages", ANTHROPIC, BROKEN_ANTHROPIC)

    def test_chat_completions(self) -> None:
        self.check("/v1/chat/completions", CHAT, BROKEN_CHAT)

    def test_responses(self) -> None:
        self.check("/v1/responses", RESPONSES, BROKEN_RESPONSES)

    def test_a_thread_of_anthropic_is_continued(self) -> None:
        messages = ANTHROPIC["messages"]
        provider = Provider([Say(calls=[("pay", {}), ("pay", {})]), Say("Paid.")], ids=lambda turn, i: "ab"[i])
        provider.__enter__()
        self.addCleanup(provider.__exit__, None, None, None)
        self.url = provider.url
        status, said = self.post("/v1/messages", {**ANTHROPIC, "messages": messages[:1], "thread": {"type": "create"}})
        self.assertEqual(status, 200, said)
        for id, wanted in ((said["id"], 200), ("msg_9", 400)):
            thread = {"type": "continue", "previous_message_id": id}
            status, answer = self.post("/v1/messages", {**ANTHROPIC, "messages": messages[2:], "thread": thread})
            self.assertEqual(status, wanted, answer)
