"""A model's provider, played: Anthropic Messages, OpenAI Chat Completions and Responses
on one local port. It says what it is told to, and refuses a conversation as the real
one does: a call without a result, a result without a call, results in the wrong
place, ids that are bad or given twice, empty texts.

    with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]) as provider:
        client = anthropic.Anthropic(base_url=provider.url, api_key="none")

Which of its turns comes next is counted in the conversation that it is sent, so the
same question has the same answer, ids included.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Say:
    """A turn of the model. Arguments that are a str are sent as they are, where the
    provider's format allows what is no JSON."""

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any] | str]] = ()
    #: In Anthropic's word; the others are made of it.
    stop_reason: str = ""


@dataclass(frozen=True)
class Heard:
    """What the model has heard so far."""

    #: How many turns it has had.
    turns: int
    #: The results of its last calls, in order, as text.
    results: Sequence[str]


Script = Sequence[Say] | Callable[[Heard], Say]


class Refused(Exception):
    """What the provider answers with status 400."""


@dataclass
class Provider:
    """``ids`` makes the id of a call from the number of its turn and its own in it."""

    script: Script
    ids: Callable[[int, int], str] = lambda turn, i: f"call_{turn}_{i}"
    #: All bodies that it was sent, with their paths; one that continues a thread has its
    #: whole conversation.
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    #: All refusals.
    refusals: list[str] = field(default_factory=list)
    #: Anthropic's message threads, by the id of their last message.
    threads: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __enter__(self) -> Provider:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = provider.answer(self.path.partition("?")[0], body)
                streams = status == 200 and body.get("stream")
                data = (_events(answer) if streams else json.dumps(answer)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
                self.send_header("Content-Length", str(len(data)))
                with contextlib.suppress(OSError):  # a client that was cancelled has left
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        thread = body.get("thread") or {}
        if thread.get("type") == "continue":
            body = {**body, "messages": [*self.threads.get(thread["previous_message_id"], ()), *body["messages"]]}
        self.requests.append((path, body))
        check, make = {
            "/v1/messages": (check_anthropic, self._anthropic),
            "/v1/chat/completions": (check_chat, self._chat),
            "/v1/responses": (check_responses, self._responses),
        }[path]
        try:
            if body.get("stream") and path != "/v1/messages":
                raise Refused("stream: this provider streams Anthropic's messages only")
            heard = check(body)
        except Refused as e:
            self.refusals.append(str(e))
            error = {"type": "invalid_request_error", "message": str(e)}
            return 400, {"type": "error", "error": error} if path == "/v1/messages" else {"error": error}
        answer = make(self._say(heard), heard.turns)
        if thread:
            self.threads[answer["id"]] = [*body["messages"], {"role": "assistant", "content": answer["content"]}]
        return 200, answer

    def _say(self, heard: Heard) -> Say:
        if callable(self.script):
            return self.script(heard)
        return self.script[min(heard.turns, len(self.script) - 1)]

    def _anthropic(self, say: Say, turn: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
        for i, (name, arguments) in enumerate(say.calls):
            content.append({"type": "tool_use", "id": self.ids(turn, i), "name": name, "input": arguments})
        return {
            "id": f"msg_{turn}", "type": "message", "role": "assistant", "model": "played", "content": content,
            "stop_reason": say.stop_reason or ("tool_use" if say.calls else "end_turn"), "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }  # fmt: skip

    def _chat(self, say: Say, turn: int) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
        if say.calls:
            message["tool_calls"] = [
                {"id": self.ids(turn, i), "type": "function", "function": {"name": name, "arguments": _json(arguments)}}
                for i, (name, arguments) in enumerate(say.calls)
            ]
        reason = "length" if say.stop_reason == "max_tokens" else "tool_calls" if say.calls else "stop"
        return {
            "id": f"chatcmpl-{turn}", "object": "chat.completion", "created": 0, "model": "played",
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }  # fmt: skip

    def _responses(self, say: Say, turn: int) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if say.text:
            part = {"type": "output_text", "text": say.text, "annotations": []}
            output.append({"type": "message", "id": f"msg_{turn}", "role": "assistant", "status": "completed", "content": [part]})
        for i, (name, arguments) in enumerate(say.calls):
            output.append({
                "type": "function_call", "id": f"fc_{turn}_{i}", "call_id": self.ids(turn, i),
                "name": name, "arguments": _json(arguments), "status": "completed",
            })  # fmt: skip
        cut = say.stop_reason == "max_tokens"
        return {
            "id": f"resp_{turn}", "object": "response", "created_at": 0, "model": "played", "output": output,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0,
            "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "usage": {
                "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
            },
        }  # fmt: skip


def _events(message: dict[str, Any]) -> str:
    """A message of Anthropic's as its stream of events."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
    ]
    for i, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": _json(block["input"])}
        events.append({"type": "content_block_start", "index": i, "content_block": start})
        events.append({"type": "content_block_delta", "index": i, "delta": delta})
        events.append({"type": "content_block_stop", "index": i})
    ends = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ends, "usage": {"output_tokens": 5}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _json(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _want(holds: Any, why: str) -> None:
    if not holds:
        raise Refused(why)


_NAME = re.compile("^[a-zA-Z0-9_-]{1,64}$")


# Anthropic Messages.


def check_anthropic(body: dict[str, Any]) -> Heard:
    _want(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    for i, tool in enumerate(body.get("tools") or []):
        _want(_NAME.match(tool.get("name", "")), f"tools.{i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        schema = tool.get("input_schema")
        _want(isinstance(schema, dict) and schema.get("type") == "object", f"tools.{i}.custom.input_schema.type: Field required")
    messages = body.get("messages")
    _want(messages, "messages: at least one message is required")
    waiting: list[str] = []  # calls of the message before
    seen: set[str] = set()
    results: list[str] = []
    for at, (role, blocks) in enumerate(_merged(messages)):
        _want(at or role == "user", "messages: first message must use the \"user\" role")
        results = _check_results(at, role, blocks, waiting)
        waiting = _check_uses(at, role, blocks, seen)
        for j, block in enumerate(blocks):
            if block.get("type") == "text":
                _want(block.get("text"), f"messages.{at}.content.{j}: text content blocks must be non-empty")
    _want(not waiting, _orphans(len(_merged(messages)) - 1, waiting))
    return Heard(sum(role == "assistant" for role, _ in _merged(messages)), results)


def _merged(messages: Iterable[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Turns as lists of blocks; neighbours of one role are one turn."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for i, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        _want(role in ("user", "assistant"), f"messages.{i}.role: Input should be 'user' or 'assistant'")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        _want(blocks and isinstance(blocks, list), f"messages.{i}: all messages must have non-empty content")
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((str(role), list(blocks)))
    return turns


def _orphans(at: int, ids: Iterable[str]) -> str:
    return (
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}."
        " Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _check_results(at: int, role: str, blocks: list[dict[str, Any]], waiting: list[str]) -> list[str]:
    """The results at the head of a message, which answer the calls of the one before."""
    found: dict[str, str] = {}
    head = True
    for j, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            head = False
            continue
        where, id = f"messages.{at}.content.{j}", block.get("tool_use_id", "")
        _want(role == "user", f"messages.{at}: `tool_result` blocks can only be in `user` messages")
        _want(
            id in waiting,
            f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have"
            " a corresponding `tool_use` block in the previous message.",
        )
        _want(id not in found, f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}")
        _want(head, _orphans(at - 1, [id]))
        said = _said(block.get("content"), where)
        _want(said or not block.get("is_error"), f"{where}: content cannot be empty if `is_error` is true")
        found[id] = said
    missing = [id for id in waiting if id not in found]
    _want(not missing, _orphans(at - 1, missing))
    return list(found.values())


def _said(content: Any, where: str) -> str:
    """The text of a result."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for k, block in enumerate(content):
        kind = block.get("type")
        _want(kind in ("text", "image", "document", "search_result"), f"{where}.tool_result.content.{k}: Input tag '{kind}' found")
        if kind == "text":
            _want(block.get("text"), f"{where}.content.{k}: text content blocks must be non-empty")
            texts.append(block["text"])
        if kind == "image":
            source = block.get("source", {})
            _want(source.get("type") in ("base64", "url"), f"{where}.content.{k}.image.source: Field required")
    return "\n".join(texts)


def _check_uses(at: int, role: str, blocks: list[dict[str, Any]], seen: set[str]) -> list[str]:
    """The calls of a message."""
    ids: list[str] = []
    for j, block in enumerate(blocks):
        if block.get("type") != "tool_use":
            continue
        where, id = f"messages.{at}.content.{j}", block.get("id", "")
        _want(role == "assistant", f"{where}: `tool_use` blocks can only be in `assistant` messages")
        _want(re.match("^[a-zA-Z0-9_-]+$", id), f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        _want(id not in seen, f"{where}: `tool_use` ids must be unique")
        _want(isinstance(block.get("input"), dict), f"{where}.tool_use.input: Input should be a valid dictionary")
        ids.append(id)
        seen.add(id)
    return ids


# OpenAI Chat Completions.


def check_chat(body: dict[str, Any]) -> Heard:
    _check_functions([tool.get("function") for tool in body.get("tools") or []])
    messages = body.get("messages")
    _want(messages, "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
    waiting: list[str] = []
    results: list[str] = []
    turns = 0
    for i, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            id = message.get("tool_call_id")
            _want(
                id in waiting,
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            )
            waiting.remove(id)
            results.append(_texts(message.get("content"), "text", f"messages[{i}].content"))
            continue
        _want(not waiting, _unanswered(waiting))
        results = []
        if role == "assistant":
            turns += 1
            waiting = _check_tool_calls(i, message)
        else:
            _want(role in ("system", "developer", "user"), f"Invalid value: '{role}'. (messages[{i}].role)")
            _want(message.get("content"), f"Invalid value for 'content': expected a string, got null. (messages[{i}])")
    _want(not waiting, _unanswered(waiting))
    return Heard(turns, results)


def _unanswered(ids: Iterable[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(ids)}"
    )


def _check_tool_calls(i: int, message: dict[str, Any]) -> list[str]:
    calls = message.get("tool_calls")
    _want(calls is None or calls, f"Invalid 'messages[{i}].tool_calls': empty array. Expected an array with minimum length 1.")
    _want(calls or message.get("content"), f"Invalid value for 'content': expected a string, got null. (messages[{i}])")
    ids: list[str] = []
    for j, call in enumerate(calls or []):
        where = f"messages[{i}].tool_calls[{j}]"
        id, function = call.get("id"), call.get("function") or {}
        _want(id, f"Missing required parameter: '{where}.id'.")
        _want(len(id) <= 40, f"Invalid '{where}.id': string too long. Expected a string with maximum length 40.")
        _want(id not in ids, f"Duplicate value for 'tool_call_id' of '{id}' in {where}.")
        _want(_NAME.match(function.get("name") or ""), f"Invalid '{where}.function.name': string does not match pattern.")
        _want(isinstance(function.get("arguments"), str), f"Invalid type for '{where}.function.arguments': expected a string.")
        ids.append(id)
    return ids


def _texts(content: Any, kind: str, where: str) -> str:
    """A result, in which there are texts and nothing else."""
    if isinstance(content, str):
        return content
    _want(isinstance(content, list), f"Invalid type for '{where}': expected one of a string or array of objects.")
    for part in content:
        _want(part.get("type") == kind, f"Invalid value: '{part.get('type')}'. Supported values are: '{kind}'. ({where})")
    return "\n".join(part["text"] for part in content)


def _check_functions(functions: Iterable[Any]) -> None:
    for i, function in enumerate(functions):
        _want(_NAME.match((function or {}).get("name") or ""), f"Invalid 'tools[{i}].function.name': string does not match pattern.")
        parameters = function.get("parameters") or {"type": "object"}
        _want(
            parameters.get("type") == "object",
            f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of 'type: \"object\"'.",
        )
        if function.get("strict"):
            _want(
                parameters.get("additionalProperties") is False
                and sorted(parameters.get("required", [])) == sorted(parameters.get("properties", {})),
                f"Invalid schema for function '{function['name']}': in strict mode, 'required' must have every key in properties"
                " and 'additionalProperties' must be false.",
            )


# OpenAI Responses.


def check_responses(body: dict[str, Any]) -> Heard:
    _check_functions([tool for tool in body.get("tools") or [] if tool.get("type") == "function"])
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    _want(items, "Missing required parameter: 'input'.")
    waiting: dict[str, int] = {}
    ids: set[str] = set()
    results: list[str] = []
    turns, theirs = 0, False
    for i, item in enumerate(items):
        kind = item.get("type") or "message"
        if id := item.get("id"):
            _want(id not in ids, f"Duplicate item found with id {id}. Remove duplicate items from your input and try again.")
            prefix = {"function_call": "fc", "message": "msg"}.get(kind, "")
            _want(id.startswith(prefix), f"Invalid 'input[{i}].id': '{id}'. Expected an ID that begins with '{prefix}'.")
            ids.add(id)
        of_model = kind in ("function_call", "reasoning") or item.get("role") == "assistant"
        if of_model and not theirs:
            turns, results = turns + 1, []
        theirs = of_model
        if kind == "function_call":
            call_id = item.get("call_id")
            _want(call_id, f"Invalid 'input[{i}].call_id': empty string. Expected a string with minimum length 1.")
            _want(call_id not in waiting, f"Duplicate function call with call_id {call_id} (input[{i}]).")
            _want(isinstance(item.get("arguments"), str), f"Invalid type for 'input[{i}].arguments': expected a string.")
            waiting[call_id] = i
        elif kind == "function_call_output":
            call_id = item.get("call_id")
            _want(call_id in waiting, f"No tool call found for function call output with call_id {call_id}.")
            del waiting[call_id]
            results.append(_output(item.get("output"), f"input[{i}].output"))
        elif not of_model:
            results = []
            _want(item.get("content"), f"Missing required parameter: 'input[{i}].content'.")
    _want(not waiting, f"No tool output found for function call {next(iter(waiting), '')}.")
    return Heard(turns, results)


def _output(output: Any, where: str) -> str:
    if isinstance(output, str):
        return output
    _want(isinstance(output, list), f"Invalid type for '{where}': expected one of a string or array of objects.")
    for part in output:
        _want(part.get("type") in ("input_text", "input_image", "input_file"), f"Invalid value: '{part.get('type')}'. ({where})")
    return "\n".join(part.get("text", "") for part in output)
