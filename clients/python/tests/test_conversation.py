"""Conversations against a sidecar that keeps them, by the client that waits and by the
one that awaits."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from sidecall import (
    AsyncConversation,
    AsyncSidecall,
    BrokenAnswer,
    Conversation,
    Sidecall,
    SidecarAway,
    StaleConversation,
    WrongField,
    WrongMessage,
    pb,
)
from sidecall.v1 import conversation_service_pb2 as conversations
from tests.test_messages import ANTHROPIC, CHAT, RESPONSE, answer, objects, read, share
from tests.test_readme import HERE, shown
from tests.test_session import DONE, HELLO, Both, Fake, said


class Book(Fake):
    """Keeps one conversation."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.provider = ""
        self.page = 100  # messages in one
        self.pending: list[Any] = []
        self.compacted_before = 0
        self.prompt = ""  # of the last append
        self.told: dict[str, int] = {}  # what appends were answered, by their ids
        self.contradicted = 0  # appends that say of a call what is not so
        self.lost = 0  # answers of appends that nobody will hear
        self.refused = 0  # appends that are to be refused
        self.most: list[int] = []  # how large what answers a message may be

    def AppendMessages(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        if self.refused:
            self.refused -= 1
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "as the test wants it")
        at, new = request.expected_version, list(request.messages_json)
        if request.append_id in self.told:
            return conversations.AppendMessagesResponse(version=self.told[request.append_id])
        if self.contradicted:
            self.contradicted -= 1
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the call toolu_1 is running: resume the conversation")
        if at != len(self.texts):
            context.set_trailing_metadata((("sidecall-conversation-version", str(len(self.texts))),))
            context.abort(grpc.StatusCode.ABORTED, f"expected_version is {at}, and the conversation has {len(self.texts)} messages")
        self.texts += new
        self.provider, self.prompt = request.provider, request.prompt_id
        self.told[request.append_id] = len(self.texts)
        if self.lost:
            self.lost -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
        return conversations.AppendMessagesResponse(version=len(self.texts))

    def ResumeConversation(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        if not self.texts:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is none")
        return conversations.ResumeConversationResponse(
            **self._page(0), pending=self.pending, compacted_before=self.compacted_before, prompt_id=self.prompt
        )

    def LoadConversation(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._begin(request, context)
        return conversations.LoadConversationResponse(**self._page(request.from_version))

    def RunMessage(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.most.append(request.max_response_bytes)
        if not request.open_at_version:
            return super().RunMessage(request, context)
        if request.open_at_version != len(self.texts):
            context.set_trailing_metadata((("sidecall-conversation-version", str(len(self.texts))),))
            context.abort(grpc.StatusCode.ABORTED, "somebody has appended")
        made = {call.tool_use_id: call for text in self.texts for call in self._calls(json.loads(text))}
        again = [share(made[p.tool_use_id], request.shared, p.turn_id) for p in self.pending]
        return answer(self.provider, list(self.ExecuteTools(pb.ExecuteToolsRequest(calls=again), context).results))

    def _calls(self, message: Any) -> list[Any]:
        whole = {
            "anthropic": {"stop_reason": "", **message}, "openai": {"choices": [{"message": message}]},
            "openai-responses": {"object": "response", "output": [message]},
        }[self.provider]  # fmt: skip
        is_made = self.provider == "openai-responses" or message["role"] == "assistant"
        return read(json.dumps(whole))[1] if is_made else []

    def _page(self, first: int) -> dict[str, Any]:
        end = first + self.page
        return {
            "version": len(self.texts), "provider": self.provider, "messages_json": self.texts[first:end],
            "next_version": end if end < len(self.texts) else 0,
        }  # fmt: skip

    def appends(self) -> list[Any]:
        return [r for r in self.requests if isinstance(r, conversations.AppendMessagesRequest)]

    def sent(self) -> list[str]:
        """The requests, in their order, by what they are about."""
        return [self._about(r) for r in self.requests]

    @staticmethod
    def _about(r: Any) -> str:
        if isinstance(r, conversations.AppendMessagesRequest):
            roles = [json.loads(text).get("role") or json.loads(text).get("type") for text in r.messages_json]
            return f"append {r.expected_version} {'+'.join(roles)}" + (f" {r.turn_id}" if r.turn_id else "")
        if isinstance(r, pb.ExecuteToolsRequest):
            return "calls " + " ".join(f"{c.turn_id}/{c.tool_use_id}" for c in r.calls)
        return type(r).__name__.removesuffix("Request")


class Waiting:
    """An awaiting client or conversation, for a test that waits."""

    def __init__(self, of: Any, until: Callable[[Any], Any]) -> None:
        self.of, self._until = of, until

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.of, name)
        return self._waits(value) if callable(value) else value

    def _waits(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            answer = function(*args, **{key: v.of if isinstance(v, Waiting) else v for key, v in named.items()})
            if inspect.isawaitable(answer):
                answer = self._until(answer)
            return Waiting(answer, self._until) if isinstance(answer, AsyncConversation) else answer

        return call


@contextlib.contextmanager
def opened(run: Callable[..., Any], **options: Any) -> Iterator[Any]:
    kind, target = run.args
    if kind is Sidecall:
        with Sidecall(target, **options) as client:
            yield client
        return
    loop = asyncio.new_event_loop()
    until = loop.run_until_complete

    async def begin() -> AsyncSidecall:
        return AsyncSidecall(target, **options)

    try:
        client = until(begin())
        yield Waiting(client, until)
        until(client.close())
    finally:
        loop.close()


FORMATS: list[tuple[str, Any, Any]] = [
    ("anthropic", ANTHROPIC, DONE),
    ("openai", CHAT, {"id": "chatcmpl-2", "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}]}),
    ("openai-responses", RESPONSE, {
        "id": "resp_2", "object": "response", "status": "completed",
        "output": [{"type": "message", "id": "msg_2", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}],
    }),
]  # fmt: skip

IDS = {"anthropic": ["toolu_1", "toolu_2"], "openai": ["call_1", "call_2"], "openai-responses": ["call_1", "call_2"]}


def pending(provider: str, turn: str) -> list[Any]:
    return [
        conversations.PendingCall(tool_use_id=id, tool_name="t", turn_id=turn, state=conversations.PENDING_NOT_RUN)
        for id in IDS[provider]
    ]


class ConversationTest(Both):
    faked = Book

    def test_a_conversation_that_is_not_there_has_no_messages(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                kept = s.conversation(7, "openai")
                self.assertEqual((kept.id, kept.provider, kept.version, kept.messages), ("7", "openai", 0, []))
                self.assertEqual(list(kept.resume()), [])
                self.assertIsInstance(getattr(kept, "of", kept), (Conversation, AsyncConversation))
            self.assertEqual(book.sent(), ["ResumeConversation"])

        self.each(test)

    def test_a_conversation_is_loaded_without_old_results(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            book.texts, book.provider, book.page, book.compacted_before = ['{"role":"user","content":"."}'] * 5, "openai", 2, 4
            with opened(run) as s:
                s.conversation("c", "openai", compact_after_turns=3, compact_to_tokens=5000)
                for wrong in ({"compact_after_turns": -1}, {"compact_to_tokens": 1.5}, {"compact_after_turns": 2**31}):
                    with self.assertRaises(WrongField) as raised:
                        s.conversation("c", "openai", **wrong)
                    self.assertIn(raised.exception.field, wrong)
            resumed, *loaded = book.requests
            self.assertEqual((resumed.compact_after_turns, resumed.compact_to_tokens), (3, 5000))
            self.assertEqual([(r.from_version, r.compact_before) for r in loaded], [(2, 4), (4, 4)])

        self.each(test)

    def test_messages_are_kept_as_they_are_written_once(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            given = '{ "role":"user",\t"content" : "\\u00e9 \U0001f600", "n": 1.0 }'
            with opened(run) as s:
                kept = s.conversation("c", "openai")
                kept.append(given, {"role": "assistant", "content": "é\ud800"})
                kept.append(objects({"role": "user", "content": "Again."}))
                want = [given, '{"role": "assistant", "content": "é\\ud800"}', '{"role": "user", "content": "Again."}']
                self.assertEqual(book.texts, want)
                self.assertEqual(kept.texts, want)
                loaded = s.conversation("c", "openai")
                self.assertEqual(loaded.texts, want)
                self.assertEqual(loaded.messages[0], {"role": "user", "content": "é \U0001f600", "n": 1.0})
                with self.assertRaises(WrongField) as raised:
                    loaded.append({"role": "user", "content": "."}, {"role": "user", "content": float("nan")})
                self.assertEqual(raised.exception.field, "messages[1]")
                loaded.append()
            self.assertEqual(book.sent()[1:], ["append 0 user+assistant", "append 2 user", "ResumeConversation"])

        self.each(test)

    def test_pages_beyond_the_first(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            book.texts = [f'{{"role":"user","content":"{i}"}}' for i in range(7)]
            book.provider, book.page = "openai", 3
            with opened(run) as s:
                self.assertEqual(s.conversation("c", "openai").texts, book.texts)
                self.assertEqual([r.from_version for r in book.requests[1:]], [3, 6])
                book._page = lambda first: {"version": 7, "provider": "openai", "next_version": 3}
                with self.assertRaises(BrokenAnswer):
                    s.conversation("c", "openai")

        self.each(test)

    def test_who_appends_second_is_told_the_version(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                one, other = s.conversation("c", "openai"), s.conversation("c", "openai")
                one.append(*HELLO, *HELLO)
                with self.assertRaises(StaleConversation) as raised:
                    other.append({"role": "user", "content": "Mine."})
                self.assertEqual((raised.exception.version, other.version), (2, 0))
                self.assertIn("has 2 messages", str(raised.exception))
                other.resume()  # which loads what there is
                other.append({"role": "user", "content": "Mine."})
                self.assertEqual((book.texts, len(book.texts)), (other.texts, 3))

        self.each(test)

    def test_busy_is_not_stale(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                kept = s.conversation("c", "openai")
                book.statuses = [grpc.StatusCode.ABORTED]  # without a version
                with self.assertRaises(grpc.RpcError) as raised:
                    kept.append(*HELLO)
                self.assertEqual(raised.exception.code(), grpc.StatusCode.ABORTED)

        self.each(test)

    def test_an_append_is_sent_again_while_the_sidecar_is_away(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                kept = s.conversation("c", "openai")
                book.statuses, book.lost = [grpc.StatusCode.UNAVAILABLE], 1
                kept.append(*HELLO)
                self.assertEqual(book.requests[1], book.requests[2])
                self.assertEqual((len(book.requests), kept.version, len(book.texts)), (4, 1, 1))

        self.each(test)

    def test_an_append_that_may_have_been_kept_is_looked_for(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run, patience=0) as s:
                kept = s.conversation("c", "openai")
                book.lost = 1
                with self.assertRaises(SidecarAway):
                    kept.append(*HELLO)
                kept.resume()
                self.assertEqual((kept.version, kept.texts), (1, book.texts))

        self.each(test)

    def test_another_provider(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            book.texts, book.provider = ['{"role":"user","content":"."}'], "openai"
            with opened(run) as s:
                with self.assertRaisesRegex(WrongField, "one of openai, not of anthropic"):
                    s.conversation("c", "anthropic")
                with self.assertRaises(WrongMessage):
                    s.conversation("c", "gemini")
                with self.assertRaises(WrongField):
                    s.conversation(None, "openai")
                self.assertEqual(len(book.requests), 1)

        self.each(test)


class ResumeTest(Both):
    faked = Book

    def test_the_calls_without_a_result_are_made_again(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            for provider, message, _ in FORMATS:
                book.__init__()
                with opened(run) as s:
                    s.run_loop(said(message), HELLO, keep=s.conversation("c", provider), max_turns=1)
                    book.prompt = ""  # as of appends that name none
                    made = [(c.tool_use_id, c.turn_id, c.arguments_json) for c in book.calls()]
                    whole = list(book.texts)
                    del book.texts[-(2 if provider != "anthropic" else 1) :]  # the results
                    book.pending, book.requests = pending(provider, message["id"]), []
                    kept = s.conversation("c", provider)
                    self.assertEqual([p.tool_use_id for p in kept.pending], IDS[provider])
                    answered = kept.resume(prompt_id="p", labels={"team": "shop"})
                    self.assertEqual([(c.tool_use_id, c.turn_id, c.arguments_json) for c in book.calls()], made)
                    self.assertEqual({(c.conversation_id, c.prompt_id, c.labels["team"]) for c in book.calls()}, {("c", "p", "shop")})
                    self.assertEqual([r.tool_use_id for r in answered.results], IDS[provider])
                    self.assertEqual((book.texts, kept.texts), (whole, whole))
                    self.assertEqual((list(kept.resume()), len(book.requests)), ([], 3))

        self.each(test)

    def test_what_a_conversation_says_itself(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            book.texts, book.provider, book.pending = ['{"role":"user","content":"."}'], "openai", pending("openai", "t")
            with opened(run) as s:
                kept = s.conversation("c", "openai")
                book.texts.append(book.texts[0])
                with self.assertRaises(StaleConversation):
                    kept.resume()
                book.requests = []
                with self.assertRaisesRegex(WrongField, "turn_id"):
                    kept.resume(turn_id="t")
                with self.assertRaisesRegex(WrongField, "Did you mean prompt_id"):
                    kept.resume(promt_id="p")
            self.assertEqual(book.calls(), [])

        self.each(test)


class KeptLoopTest(Both):
    faked = Book

    def test_everything_is_kept_before_the_next_thing_is_done(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            for provider, message, done in FORMATS:
                book.__init__()
                with opened(run) as s:
                    kept, model, seen = s.conversation("c", provider), said(objects(message), done), []
                    loop = s.run_loop(lambda m, model=model, seen=seen: seen.append(m) or model(m), HELLO, keep=kept)
                    self.assertEqual((loop.exit_reason, loop.turns), ("end_turn", 2))
                    self.assertEqual(loop.messages, kept.messages)
                    self.assertEqual(seen[1], kept.messages[: len(seen[1])])
                    self.assertEqual(book.texts, kept.texts)
                    turn, n = message["id"], len(message.get("output", [0]))
                    roles = "+".join(i["type"] for i in message["output"]) if n > 1 else "assistant"
                    answers = {"anthropic": "user", "openai": "tool+tool"}.get(provider, "function_call_output+function_call_output")
                    after = 1 + n + answers.count("+") + 1
                    self.assertEqual(book.sent(), [
                        "ResumeConversation", "append 0 user", f"append 1 {roles} {turn}",
                        "calls " + " ".join(f"{turn}/{id}" for id in IDS[provider]),
                        f"append {1 + n} {answers}", f"append {after} assistant {done['id']}", "EndPrompt",
                    ])  # fmt: skip
                    # It has ended: nobody is asked again.
                    book.requests = []
                    for again in (kept, s.conversation("c", provider)):
                        ended = s.run_loop(self.fail, keep=again)
                        self.assertEqual((ended.exit_reason, ended.turns, ended.messages), ("end_turn", 0, kept.messages))
                    self.assertEqual(book.sent(), ["ResumeConversation"])
                    # The next message of the user is behind it.
                    s.run_loop(said(done), HELLO, keep=kept)
                    self.assertEqual(book.sent()[1:], [f"append {after + 1} user", f"append {after + 2} assistant {done['id']}", "EndPrompt"])

        self.each(test)

    def test_one_that_was_killed_in_its_calls_goes_on(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            for provider, message, done in FORMATS:
                book.__init__()
                with opened(run, patience=0) as s:
                    kept = s.conversation("c", provider)
                    with self.assertRaises(ZeroDivisionError):
                        s.run_loop(lambda m, message=message, book=book: self.breaks(book, message), HELLO, keep=kept)
                    self.assertEqual(len(book.texts), 1)
                    begun = book.prompt
                    # Killed in its calls, and gone on with by the same object and by another.
                    for again in (kept, None):
                        book.requests = []
                        book.result = lambda call: 1 / 0
                        with self.assertRaises(grpc.RpcError):
                            s.run_loop(said(message), keep=again or s.conversation("c", provider))
                        book.pending = pending(provider, message["id"])
                        book.result = Fake().result
                        book.requests = []
                        loop = s.run_loop(said(done), keep=again or s.conversation("c", provider))
                        self.assertEqual((loop.exit_reason, loop.turns), ("end_turn", 1))
                        self.assertEqual(book.sent()[0], "ResumeConversation")
                        self.assertEqual(book.sent()[1], "calls " + " ".join(f"{message['id']}/{id}" for id in IDS[provider]))
                        self.assertEqual(len(book.calls()), 2)
                        self.assertEqual({c.prompt_id for c in book.calls()}, {loop.prompt_id})
                        self.assertEqual({r.prompt_id for r in book.appends()}, {begun})
                        self.assertEqual(loop.prompt_id, begun)
                        book.texts, book.pending = book.texts[:1], []
                        kept = None

        self.each(test)

    def test_messages_begin_another_prompt_and_calls_stay_in_theirs(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                kept = s.conversation("c", "anthropic")
                first = s.run_loop(said(ANTHROPIC), HELLO, keep=kept, max_turns=1)
                del book.texts[-1:]  # the results
                book.pending, book.requests = pending("anthropic", ANTHROPIC["id"]), []
                loop = s.run_loop(said(DONE), HELLO, keep=s.conversation("c", "anthropic"))
                self.assertEqual({c.prompt_id for c in book.calls()}, {first.prompt_id})
                self.assertEqual([r.prompt_id for r in book.appends()], [first.prompt_id, loop.prompt_id, loop.prompt_id])
                self.assertNotEqual(loop.prompt_id, first.prompt_id)
                book.pending, book.requests = [], []
                kept = s.conversation("c", "anthropic")
                self.assertEqual(kept.prompt_id, loop.prompt_id)
                kept.append(*HELLO, prompt_id=7)
                self.assertEqual(s.run_loop(said(DONE), keep=kept).prompt_id, "7")
                kept.append(*HELLO)
                self.assertEqual(s.run_loop(said(DONE), keep=kept, prompt_id="mine").prompt_id, "mine")
                self.assertEqual([r.prompt_id for r in book.appends()], ["7", "7", "7", "mine"])

        self.each(test)

    def test_an_append_that_contradicts_what_ran_is_stale(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                kept = s.conversation("c", "openai")
                kept.append(*HELLO)
                book.contradicted = 1
                with self.assertRaisesRegex(StaleConversation, "resume the conversation") as raised:
                    kept.append(*HELLO)
                self.assertEqual((raised.exception.version, kept.version), (1, 1))
                kept.resume()
                self.assertEqual(book.sent()[-1], "ResumeConversation")
                kept.append(*HELLO)
                self.assertEqual(kept.version, 2)
                self.assertEqual(len({r.append_id for r in book.appends()}), 3)

        self.each(test)

    @staticmethod
    def breaks(book: Book, message: Any) -> Any:
        raise ZeroDivisionError(message)

    def test_calls_of_a_message_that_was_cut_are_answered_with_it(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            cut = {**ANTHROPIC, "stop_reason": "max_tokens"}
            with opened(run) as s:
                loop = s.run_loop(said(cut, DONE), HELLO, keep=s.conversation("c", "anthropic"))
            self.assertEqual(book.sent()[1:4], ["append 0 user", "append 1 assistant+user msg_1", "append 3 assistant msg_9"])
            self.assertEqual((loop.turns, book.calls()), (2, []))
            self.assertTrue(all(r.is_error for r in loop.results))

        self.each(test)

    def test_an_append_that_is_refused_ends_the_loop_before_its_calls(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            def ask(_: Any) -> Any:
                book.refused = 1
                return ANTHROPIC

            with opened(run) as s, self.assertRaises(grpc.RpcError):
                s.run_loop(ask, HELLO, keep=s.conversation("c", "anthropic"))
            self.assertEqual((book.calls(), book.ended()), ([], ["error"]))

        self.each(test)

    def test_what_is_too_large_to_be_kept(self) -> None:
        long = {"role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text", "text": "é" * (3 << 19)}]}

        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                for message, model in ((long, said()), (HELLO[0], said(long))):
                    with self.assertRaisesRegex(WrongField, r"^messages\[0\]: has 3145\d{3} bytes, .* at most 3145728: .* URL"):
                        s.run_loop(model, [message], keep=s.conversation("c", "anthropic"))
                self.assertEqual((book.calls(), len(book.texts)), ([], 1))
                # What answers the calls fits, whatever there is in it.
                s.run_loop(said(ANTHROPIC), HELLO, keep=s.conversation("c", "anthropic"), max_turns=1)
                self.assertEqual(book.most, [3 << 20])

        self.each(test)

    def test_the_loop_of_the_readme(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                model = said(ANTHROPIC, DONE)
                names = {"s": s, "ask": model, "question": "Where is A-1?"}
                exec(shown(HERE / "README.md", "kept = s.conversation("), names)
                self.assertEqual((names["loop"].turns, names["kept"].texts, len(book.texts)), (0, book.texts, 4))

        self.each(test, Sidecall)

    def test_the_conversation_is_named_once(self) -> None:
        def test(book: Book, run: Callable[..., Any]) -> None:
            with opened(run) as s:
                kept = s.conversation("c", "anthropic")
                with self.assertRaisesRegex(WrongField, "conversation_id"):
                    s.run_loop(self.fail, HELLO)
                with self.assertRaisesRegex(WrongField, "'c', and this is 'd'"):
                    s.run_loop(self.fail, HELLO, conversation_id="d", keep=kept)
                s.run_loop(said(DONE), HELLO, conversation_id="c", keep=kept)

        self.each(test)


if __name__ == "__main__":
    unittest.main()
