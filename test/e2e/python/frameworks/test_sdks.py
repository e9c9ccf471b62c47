"""run_tools and run_loop with the objects of the providers' own packages, as they parse
what is on the wire; what comes back is sent by them again, to a provider that refuses
what is not in order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import openai
from sidecall import AsyncSidecall, Message, ToolMessages

from frameworks.desk import DeskTest
from provider import Provider, Say

#: Three calls: a good one, one of a tool that does not exist, one that is wrong.
CALLS = Say("I pay.", [("pay", {"cents": 5}), ("payy", {}), ("pay", {"cents": "7"})])
SCRIPT = [CALLS, Say(calls=[("pay", {"cents": 7})]), Say("Paid.")]


class SDKTest(DeskTest):
    def ask(self, provider: Provider, kind: str) -> Any:
        """The model call of a loop, by the provider's package."""
        if kind == "anthropic":
            claude = anthropic.Anthropic(base_url=provider.url, api_key="none", max_retries=0)
            self.addCleanup(claude.close)
            return lambda messages: claude.messages.create(
                model="claude-opus-4-8", max_tokens=100, tools=self.s.tools("anthropic"), messages=messages
            )
        client = openai.OpenAI(base_url=provider.url + "/v1", api_key="none", max_retries=0)
        self.addCleanup(client.close)
        if kind == "chat":
            return lambda messages: client.chat.completions.create(model="played", tools=self.s.tools("openai"), messages=messages)
        return lambda messages: client.responses.create(model="played", tools=self.s.tools("openai-responses"), input=messages)

    def test_a_loop_by_hand(self) -> None:
        own = {
            "anthropic": lambda message: [{"role": "assistant", "content": message.content}],
            "chat": lambda message: [message.choices[0].message],
            "responses": lambda message: message.output,
        }
        for kind, append in own.items():
            with self.subTest(kind), Provider(SCRIPT) as provider:
                self.answers.clear()
                ask, before = self.ask(provider, kind), len(self.payments())
                messages: list[Any] = [{"role": "user", "content": "Pay."}]
                for _ in range(3):
                    message = ask(messages)
                    messages += append(message)
                    results = self.s.run_tools(message, conversation_id=kind)
                    messages += results
                self.assertEqual(results, ToolMessages())
                self.assertEqual(len(self.payments()) - before, 2)
                self.assertEqual([json.loads(w).get("code") for w in self.words()], [None, "UNKNOWN_TOOL", "INVALID_ARGS", None])
                self.assert_heard(provider)

    def test_run_loop(self) -> None:
        for kind in ("anthropic", "chat", "responses"):
            with self.subTest(kind), Provider(SCRIPT) as provider:
                self.answers.clear()
                end = self.s.run_loop(self.ask(provider, kind), [{"role": "user", "content": "Pay."}], conversation_id="loop-" + kind)
                self.assertEqual((end.exit_reason, end.turns, end.tokens), ("end_turn", 3, 45))
                self.assert_heard(provider)

    def test_arguments_that_are_no_json_are_explained(self) -> None:
        for kind in ("chat", "responses"):
            with self.subTest(kind), Provider([Say(calls=[("pay", '{"cents": 5')]), Say("I see.")]) as provider:
                self.answers.clear()
                self.s.run_loop(self.ask(provider, kind), [{"role": "user", "content": "Pay."}], conversation_id="bad-" + kind)
                self.assertEqual([json.loads(w)["code"] for w in self.words()], ["INVALID_ARGS"])
                self.assert_heard(provider)
        self.assertEqual(self.payments(), [])

    def test_a_message_that_was_cut_runs_nothing(self) -> None:
        for kind in ("anthropic", "chat", "responses"):
            with self.subTest(kind), Provider([Say(calls=[("pay", {"cents": 5})], stop_reason="max_tokens"), Say("Sorry.")]) as provider:
                messages: list[Message] = [{"role": "user", "content": "Pay."}]
                end = self.s.run_loop(self.ask(provider, kind), messages, conversation_id="cut-" + kind)
                self.assertIn("CANCELLED", json.dumps(end.messages))
                self.assertEqual(provider.refusals, [])
        self.assertEqual(self.payments(), [])

    def test_async_packages(self) -> None:
        async def run(provider: Provider) -> list[str]:
            reasons = []
            async with (
                AsyncSidecall(self.s._launched.target) as s,
                anthropic.AsyncAnthropic(base_url=provider.url, api_key="none", max_retries=0) as claude,
                openai.AsyncOpenAI(base_url=provider.url + "/v1", api_key="none", max_retries=0) as gpt,
            ):
                known = {kind: await s.tools(kind) for kind in ("anthropic", "openai", "openai-responses")}
                asks: list[Any] = [
                    lambda m: claude.messages.create(model="claude-opus-4-8", max_tokens=100, tools=known["anthropic"], messages=m),
                    lambda m: gpt.chat.completions.create(model="played", tools=known["openai"], messages=m),
                    lambda m: gpt.responses.create(model="played", tools=known["openai-responses"], input=m),
                ]
                for i, ask in enumerate(asks):
                    end = await s.run_loop(ask, [{"role": "user", "content": "Pay."}], conversation_id=f"async-{i}")
                    reasons.append(end.exit_reason)
            return reasons

        with Provider(SCRIPT) as provider:
            self.assertEqual(asyncio.run(run(provider)), ["end_turn"] * 3)
            self.assertEqual(provider.refusals, [])
        self.assertEqual(len(self.payments()), 6)
