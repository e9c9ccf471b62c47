"""PydanticAI itself, with the providers' own clients, and a sidecar."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from typing import Any, ClassVar

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset, ModelRetry, RunContext
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelMessage, ToolReturn, ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from sidecall import WrongField
from sidecall.adapters.pydantic_ai import SidecallToolset

from frameworks.desk import REFUND, DeskTest, OwnTest
from provider import Provider, Say

KINDS = ("anthropic", "chat", "responses")
PAY_BOTH = [Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 7})]), Say("Paid.")]


def returned(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


class Runs(DeskTest):
    def setUp(self) -> None:
        super().setUp()
        self.clients: list[Any] = []

    def go(self, run: Coroutine[Any, Any, Any]) -> Any:
        async def closing() -> Any:
            try:
                return await run
            finally:
                for client in self.clients:
                    await client.close()
                self.clients.clear()

        return asyncio.run(closing())

    def agent(self, provider: Provider, kind: str = "anthropic", **how: Any) -> Agent[None, str]:
        model: Any
        if kind == "anthropic":
            anthropic = AsyncAnthropic(base_url=provider.url, api_key="none", max_retries=0)
            self.clients.append(anthropic)
            model = AnthropicModel("claude-opus-4-8", provider=AnthropicProvider(anthropic_client=anthropic))
        else:
            openai = AsyncOpenAI(base_url=provider.url + "/v1", api_key="none", max_retries=0)
            self.clients.append(openai)
            to = OpenAIProvider(openai_client=openai)
            model = OpenAIChatModel("gpt-4o", provider=to) if kind == "chat" else OpenAIResponsesModel("gpt-4o", provider=to)
        return Agent(model, toolsets=[SidecallToolset(self.s, **how)])


class PydanticAITest(Runs):
    def test_an_agent_pays_in_one_request_a_turn(self) -> None:
        for kind, turn in zip(KINDS, ("msg_0", "chatcmpl-0", "resp_0"), strict=True):
            with self.subTest(kind), Provider(PAY_BOTH) as provider:
                self.batches.clear()
                self.answers.clear()
                before = len(self.payments())
                end = self.go(self.agent(provider, kind).run("Pay.", conversation_id=kind, run_id="run-" + kind))
                self.assertEqual(end.output, "Paid.")
                self.assertEqual(len(self.payments()) - before, 2)
                self.assert_heard(provider)
                ((first, second),) = self.batches
                self.assertEqual((first.tool_use_id, second.tool_use_id), ("call_0_0", "call_0_1"))
                self.assertEqual((first.conversation_id, first.turn_id, first.prompt_id), (kind, turn, "run-" + kind))

    def test_the_five_fields_reach_the_model_word_for_word(self) -> None:
        for kind in KINDS:
            bad = {"cents": "x"} if kind == "anthropic" else '{"cents": 5'
            with self.subTest(kind), Provider([Say(calls=[("pay", {"cents": "5"}), ("pay", bad)]), Say("I see.")]) as provider:
                self.answers.clear()
                end = self.go(self.agent(provider, kind).run("Pay.", conversation_id=kind))
                self.assertEqual([json.loads(w)["code"] for w in self.words()], ["INVALID_ARGS"] * 2)
                self.assertEqual([part.outcome for part in returned(end.all_messages())], ["failed"] * 2)
                if kind == "anthropic":
                    self.assert_heard(provider)
                    continue
                # These two have no way to mark an error: PydanticAI writes {"error": ...} around it.
                _, body = provider.requests[-1]
                told = [m.get("content", m.get("output")) for m in body.get("messages", body.get("input"))][-2:]
                for said, words in zip(told, self.words(), strict=True):
                    self.assertTrue(json.loads(said)["error"].startswith(words))
                self.assertEqual(provider.refusals, [])
        self.assertEqual(self.payments(), [])

    def test_ids_that_start_again_in_every_turn_are_other_calls(self) -> None:
        with Provider([PAY_BOTH[0], *PAY_BOTH], ids=lambda turn, i: f"call_{i}") as provider:
            self.go(self.agent(provider, "chat").run("Pay.", conversation_id="c-1"))
        self.assertEqual(len(self.payments()), 4)

    def test_a_history_that_is_run_again_pays_once(self) -> None:
        """The process dies after the tools ran and before their results were kept: what
        is run again is the history that ends in the calls."""

        async def run(provider: Provider) -> list[str]:
            agent = self.agent(provider)
            end = await agent.run("Pay.", conversation_id="c-1")
            kept = end.all_messages()[:2]
            again = await agent.run(message_history=kept, conversation_id="c-1")
            return [end.output, again.output]

        with Provider(PAY_BOTH) as provider:
            self.assertEqual(self.go(run(provider)), ["Paid.", "Paid."])
            self.assertEqual(provider.refusals, [])
        self.assertEqual(len(self.batches), 2)
        self.assertEqual(len(self.payments()), 2)

    def test_a_run_that_goes_round_in_circles_ends(self) -> None:
        with Provider(lambda heard: Say(calls=[("pay", {"cents": 0})])) as provider, self.assertRaises(RunCancelled) as raised:
            self.go(self.agent(provider).run("Pay.", conversation_id="c-1"))
        self.assertTrue(self.answers[-1][0].stop)
        self.assertTrue(raised.exception.all_messages())

    def test_a_task_that_is_cancelled_cancels_its_call(self) -> None:
        os.mkfifo(self.directory / "gate")

        async def run(provider: Provider) -> None:
            task = asyncio.create_task(self.agent(provider).run("Wait.", conversation_id="c-1"))
            await self.begun(task)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(self.rpcs[-1].cancelled())

        with Provider([Say(calls=[("wait", {})]), Say("Done.")]) as provider:
            self.go(run(provider))

    def test_what_is_wrong_is_said_in_one_sentence(self) -> None:
        with self.assertRaisesRegex(WrongField, "^promt_id: there is no such field. Did you mean prompt_id"):
            SidecallToolset(self.s, promt_id="p")
        with self.assertRaisesRegex(WrongField, "^client: want a Sidecall or an AsyncSidecall, got a str"):
            SidecallToolset("unix:///run/s.sock")  # type: ignore[arg-type]
        with Provider(PAY_BOTH) as provider, self.assertRaisesRegex(WrongField, "^conversation_id: this run has none: run it with"):
            self.go(self.agent(provider, conversation_id=lambda ctx: 5.5).run("Pay."))
        self.assertEqual(self.payments(), [])


class FunctionsTest(Runs, OwnTest):
    def test_functions_of_the_agent_run_through_the_sidecar(self) -> None:
        def refund(cents: int) -> str:
            """Refund."""
            return self.refund(cents)

        async def greet(ctx: RunContext[None], name: str) -> Any:
            """Greet."""
            return ToolReturn(f"Hello {name}", metadata=ctx.tool_call_id)

        for kind in KINDS:
            with self.subTest(kind), Provider(REFUND) as provider:
                self.again()
                agent = self.agent(provider, kind, functions=[refund, greet], effects={"refund": "keyed"})
                end = self.go(agent.run("Refund.", conversation_id=kind))
                self.assertEqual(end.output, "Done.")
                # Where a provider has no mark for an error, it is written around it.
                told = None if kind == "anthropic" else str([part.content for part in returned(end.all_messages())])
                self.assert_refunded(provider, told=told)
                self.assertEqual(returned(end.all_messages())[-1].metadata, "call_0_2")

    def test_what_a_function_raises(self) -> None:
        def ask_again() -> str:
            """Ask again."""
            raise ModelRetry("which one?")

        def fail() -> str:
            """Fail."""
            raise RuntimeError("out of paper")

        with Provider([Say(calls=[("ask_again", {}), ("fail", {})]), Say("Sorry.")]) as provider:
            toolset: FunctionToolset[None] = FunctionToolset([ask_again, fail])
            self.go(self.agent(provider, functions=toolset).run("Fail.", conversation_id="c-1"))
            self.assert_heard(provider)
        self.assertIn("which one?", self.words()[0])
        self.assertIn("out of paper", self.words()[1])

    def test_a_history_that_is_run_again_runs_a_function_once(self) -> None:
        def pay(cents: int) -> str:
            """Pay."""
            self.done.append(str(cents))
            return "paid"

        with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid."), Say("Paid.")]) as provider:
            agent = self.agent(provider, functions=[pay])
            end = self.go(agent.run("Pay.", conversation_id="c-1"))
            again = self.agent(provider, functions=[pay])
            self.go(again.run(message_history=end.all_messages()[:2], conversation_id="c-1"))
        self.assertEqual(self.done, ["5"])
        self.assertTrue(self.answers[-1][0].replayed)


class HeldTest(Runs):
    """A call that waits for a person ends the run with DeferredToolRequests. Whoever approves it there
    has it made again, and it waits again until the sidecar was told to allow it."""

    of_tools: ClassVar[dict[str, dict[str, Any]]] = {"pay": {"approve_when": "args.cents > 100"}}

    def test_it_is_paid_once_it_is_allowed(self) -> None:
        for kind in KINDS:
            with self.subTest(kind), Provider([Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 101})]), Say("Paid.")]) as provider:
                self.go(self.held(provider, kind))

    async def held(self, provider: Provider, kind: str) -> None:
        before, agent = len(self.payments()), self.agent(provider, kind, defer_held=True)
        how: Any = {"conversation_id": kind, "output_type": [str, DeferredToolRequests]}
        end: Any = await agent.run("Pay.", **how)
        for allowed in (False, True):
            (call,) = end.output.approvals
            about = end.output.metadata[call.tool_call_id]
            self.assertEqual(about["hold"]["reason"], "approve_when: args.cents > 100")
            self.assertEqual([p["cents"] for p in self.payments()[before:]], [5])
            if allowed:
                self.approve({**about, "tool_use_id": call.tool_call_id})
            approved = DeferredToolResults(approvals={call.tool_call_id: True})
            end = await agent.run(message_history=end.all_messages(), deferred_tool_results=approved, **how)
        self.assertEqual(end.output, "Paid.")
        self.assertEqual([p["cents"] for p in self.payments()[before:]], [5, 101])
        self.assertEqual(provider.refusals, [])
