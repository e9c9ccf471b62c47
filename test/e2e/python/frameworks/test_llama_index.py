"""LlamaIndex itself, with OpenAI's own client, and a sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import openai
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.workflow import Context, JsonPickleSerializer
from sidecall import WrongField
from sidecall.adapters.llama_index import SidecallAgentWorkflow, SidecallFunctionAgent, tools
from sqlalchemy.ext.asyncio import create_async_engine

from frameworks.desk import REFUND, DeskTest, OwnTest
from frameworks.llama_model import Played
from provider import Provider, Say

PAY_BOTH = [Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 7})]), Say("Paid.")]


def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


@contextlib.asynccontextmanager
async def memory(conversation: str = "c-1") -> AsyncIterator[Memory]:
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    try:
        yield Memory.from_defaults(session_id=conversation, async_engine=engine)
    finally:
        await engine.dispose()


class Runs(DeskTest):
    async def agent(self, provider: Provider, **how: Any) -> SidecallFunctionAgent:
        return SidecallFunctionAgent(llm=Played(provider.url), tools=await self.tools(how), streaming=False)

    async def tools(self, how: Any) -> list[Any]:
        return [*await tools(self.s, **how), *([] if "functions" in how else [greet])]

    async def workflow(self, provider: Provider, **how: Any) -> SidecallAgentWorkflow:
        agent = FunctionAgent(name="desk", llm=Played(provider.url), tools=await self.tools(how), streaming=False)
        return SidecallAgentWorkflow(agents=[agent])

    def results(self, make: Any, conversation: str) -> tuple[str, list[ToolCallResult]]:
        async def run() -> tuple[str, list[ToolCallResult]]:
            async with memory(conversation) as remembers:
                handler = (await make).run("Pay.", memory=remembers)
                found = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
                return str(await handler), found

        return asyncio.run(run())


class LlamaIndexTest(Runs):
    def test_agents_pay(self) -> None:
        for make in (self.agent, self.workflow):
            with self.subTest(make.__name__), Provider(PAY_BOTH) as provider:
                self.batches.clear()
                self.answers.clear()
                before = len(self.payments())
                end, found = self.results(make(provider), make.__name__)
                self.assertEqual(end, "Paid.")
                self.assertEqual({result.tool_id for result in found}, {"call_0_0", "call_0_1"})
                self.assertEqual(len(self.payments()) - before, 2)
                self.assert_heard(provider)
                calls = [call for batch in self.batches for call in batch]
                known = {(call.conversation_id, call.turn_id, call.prompt_id) for call in calls}
                self.assertEqual(known, {(make.__name__, "1.1", "1")})

    def test_the_five_fields_reach_the_model_word_for_word(self) -> None:
        for make in (self.agent, self.workflow):
            script = [Say(calls=[("pay", {"cents": "5"}), ("payy", {}), ("greet", {"name": "Zoë"})]), Say("I see.")]
            with self.subTest(make.__name__), Provider(script) as provider:
                self.answers.clear()
                _, found = self.results(make(provider), make.__name__)
                self.assertEqual(sorted(json.loads(words)["code"] for words in self.words()), ["INVALID_ARGS", "UNKNOWN_TOOL"])
                failed = {r.tool_id for r in found if r.tool_output.is_error}
                self.assertEqual(failed, {"call_0_0", "call_0_1"})
                self.assert_heard(provider)
        self.assertEqual(self.payments(), [])

    def test_a_context_that_is_resumed_pays_once(self) -> None:
        """The process dies while its tool runs: what is run again is the context from
        then, with a memory that it keeps."""

        async def run(provider: Provider) -> list[str]:
            agent = await self.agent(provider, conversation_id="c-1")
            ctx, kept = Context(agent), None
            handler = agent.run("Pay.", memory=ChatMemoryBuffer.from_defaults(token_limit=1000), ctx=ctx)
            while not self.batches:
                await asyncio.sleep(0)
            kept = ctx.to_dict(JsonPickleSerializer())
            end = str(await handler)
            return [end, str(await agent.run(ctx=Context.from_dict(agent, kept, JsonPickleSerializer())))]

        with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]) as provider:
            self.assertEqual(asyncio.run(run(provider)), ["Paid.", "Paid."])
            self.assertEqual(provider.refusals, [])
        self.assertEqual(len(self.batches), 2)
        self.assertEqual(self.payments(), [{"cents": 5}])

    def test_a_call_that_a_resumed_context_makes_twice_pays_once(self) -> None:
        """Kept a little earlier, a context has the step that asks for the call and the
        call: LlamaIndex then makes it twice, and a conversation that is refused for it."""

        async def run(provider: Provider) -> None:
            agent = await self.agent(provider, conversation_id="c-1")
            ctx, kept = Context(agent), None
            handler = agent.run("Pay.", memory=ChatMemoryBuffer.from_defaults(token_limit=1000), ctx=ctx)
            async for event in handler.stream_events():
                if kept is None and type(event).__name__ == "ToolCall":
                    kept = ctx.to_dict(JsonPickleSerializer())
            await handler
            with contextlib.suppress(openai.BadRequestError):
                await agent.run(ctx=Context.from_dict(agent, kept, JsonPickleSerializer()))

        with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]) as provider:
            asyncio.run(run(provider))
        self.assertGreater(sum(len(batch) for batch in self.batches), 1)
        self.assertEqual(self.payments(), [{"cents": 5}])

    def test_a_run_that_goes_round_in_circles_ends(self) -> None:
        with Provider(lambda heard: Say(calls=[("pay", {"cents": 0})])) as provider:
            end, _ = self.results(self.agent(provider), "c-1")
        self.assertTrue(self.answers[-1][0].stop)
        self.assertTrue(end.startswith(self.words()[-1]))

    def test_a_run_that_is_cancelled_cancels_its_call(self) -> None:
        os.mkfifo(self.directory / "gate")

        async def run(provider: Provider) -> None:
            async with memory() as remembers:
                handler = (await self.agent(provider)).run("Wait.", memory=remembers)
                await self.begun(handler)
                await handler.cancel_run()
                while not self.rpcs[-1].done():
                    await asyncio.sleep(0.01)
                self.assertTrue(self.rpcs[-1].cancelled())

        with Provider([Say(calls=[("wait", {})]), Say("Done.")]) as provider:
            asyncio.run(run(provider))

    def test_what_is_wrong_is_said_in_one_sentence(self) -> None:
        with self.assertRaisesRegex(WrongField, "^promt_id: there is no such field. Did you mean prompt_id"):
            asyncio.run(tools(self.s, promt_id="p"))
        with self.assertRaisesRegex(WrongField, "^tool_id: a tool is not told it: run this one by a SidecallFunctionAgent"):
            asyncio.run(tools(self.s))[0].call(cents=5)
        with Provider(PAY_BOTH) as provider, self.assertRaisesRegex(Exception, "conversation_id: this run has none: run it with"):
            self.results(self.agent(provider, conversation_id=lambda ctx: 5.5), "c-1")
        self.assertEqual(self.payments(), [])


class FunctionsTest(Runs, OwnTest):
    def test_functions_of_the_agent_run_through_the_sidecar(self) -> None:
        def refund(cents: int) -> str:
            """Refund."""
            return self.refund(cents)

        async def greet(ctx: Context, name: str) -> str:
            """Greet."""
            await ctx.store.set("greeted", name)
            return f"Hello {name}"

        greet.__annotations__["ctx"] = Context  # LlamaIndex does not know it by its name

        for make in (self.agent, self.workflow):
            with self.subTest(make.__name__), Provider(REFUND) as provider:
                self.again()
                end, _ = self.results(make(provider, functions=[refund, greet], effects={"refund": "keyed"}), make.__name__)
                self.assertEqual(end, "Done.")
                self.assert_refunded(provider)

    def test_a_function_that_fails_is_a_failure(self) -> None:
        def fail() -> str:
            """Fail."""
            raise RuntimeError("out of paper")

        with Provider([Say(calls=[("fail", {})]), Say("Sorry.")]) as provider:
            _, (found,) = self.results(self.agent(provider, functions=[fail]), "c-1")
        self.assertTrue(found.tool_output.is_error)
        self.assertIn("out of paper", found.tool_output.content)
