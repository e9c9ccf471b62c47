"""Google's ADK itself, with its model for Claude and Anthropic's own client, and a sidecar."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from anthropic import AsyncAnthropic
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from sidecall import WrongField
from sidecall.adapters.google_adk import SidecallPlugin, SidecallToolset

from frameworks.desk import REFUND, DeskTest, OwnTest
from provider import Provider, Say

PAY_BOTH = [Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 7})]), Say("Paid.")]


def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


def said(events: list[Event]) -> list[dict[str, Any]]:
    return [dict(answer.response or {}) for event in events for answer in event.get_function_responses()]


class Runs(DeskTest):
    async def run_on(
        self, provider: Provider, plugins: bool = True, sessions: Any = None, session: str = "c-1", **how: Any
    ) -> list[Event]:
        sessions = sessions or InMemorySessionService()
        if await sessions.get_session(app_name="desk", user_id="u", session_id=session) is None:
            await sessions.create_session(app_name="desk", user_id="u", session_id=session)
        async with AsyncAnthropic(base_url=provider.url, api_key="none", max_retries=0) as client:
            model = AnthropicLlm(model="claude-opus-4-8", client=client)
            agent = LlmAgent(name="desk", model=model, tools=[SidecallToolset(self.s, **how), *([] if how else [greet])])
            app = App(name="desk", root_agent=agent, plugins=[SidecallPlugin(self.s)] if plugins else [])
            runner = Runner(app=app, session_service=sessions)
            message = types.Content(role="user", parts=[types.Part(text="Pay.")])
            return [e async for e in runner.run_async(user_id="u", session_id=session, new_message=message)]


class GoogleADKTest(Runs):
    def test_an_agent_pays_in_one_request_a_turn(self) -> None:
        for plugins in (True, False):
            with self.subTest(plugins=plugins), Provider(PAY_BOTH) as provider:
                self.batches.clear()
                before = len(self.payments())
                events = asyncio.run(self.run_on(provider, plugins, session=f"c-{plugins}"))
                self.assertEqual(events[-1].content.parts[0].text, "Paid.")
                self.assertEqual(provider.refusals, [])
                self.assertEqual(len(self.payments()) - before, 2)
                ((first, second),) = self.batches
                self.assertEqual((first.tool_use_id, second.tool_use_id), ("call_0_0", "call_0_1"))
                self.assertEqual(
                    (first.conversation_id, first.turn_id, first.prompt_id), (f"c-{plugins}", events[0].id, events[0].invocation_id)
                )

    def test_the_five_fields_reach_the_model_word_for_word(self) -> None:
        with Provider([Say(calls=[("pay", {"cents": "5"}), ("payy", {}), ("greet", {"name": "Zoë"})]), Say("I see.")]) as provider:
            events = asyncio.run(self.run_on(provider))
        answers = said(events)
        self.assertEqual([json.loads(words)["code"] for words in self.words()], ["INVALID_ARGS", "UNKNOWN_TOOL"])
        for answer, words in zip(answers, self.words(), strict=False):
            self.assertTrue(answer["error"].startswith(words))
        self.assertEqual(answers[2], {"result": "Hello Zoë"})  # a function of the agent's own
        # ADK writes {"error": ...} as JSON to this provider.
        told = [json.loads(block["content"])["error"] for block in provider.requests[-1][1]["messages"][-1]["content"][:2]]
        self.assertEqual(told, [answer["error"] for answer in answers[:2]])
        self.assertEqual(provider.refusals, [])
        self.assertEqual(self.payments(), [])

    def test_ids_of_two_turns_are_two_calls(self) -> None:
        sessions = InMemorySessionService()

        async def run(provider: Provider) -> None:
            for _ in range(2):
                await self.run_on(provider, sessions=sessions)

        with Provider(PAY_BOTH * 2) as provider:
            asyncio.run(run(provider))
        self.assertEqual(len(self.payments()), 4)
        self.assertEqual(len({call.turn_id for batch in self.batches for call in batch}), 2)

    def test_an_invocation_that_goes_round_in_circles_ends(self) -> None:
        with Provider(lambda heard: Say(calls=[("pay", {"cents": 0})])) as provider:
            events = asyncio.run(self.run_on(provider))
        self.assertTrue(self.answers[-1][0].stop)
        self.assertTrue(said(events)[-1]["error"].startswith(self.words()[-1]))

    def test_a_task_that_is_cancelled_cancels_its_call(self) -> None:
        os.mkfifo(self.directory / "gate")

        async def run(provider: Provider) -> None:
            task = asyncio.create_task(self.run_on(provider))
            await self.begun(task)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(self.rpcs[-1].cancelled())

        with Provider([Say(calls=[("wait", {})]), Say("Done.")]) as provider:
            asyncio.run(run(provider))

    def test_what_is_wrong_is_said_in_one_sentence(self) -> None:
        for make in (SidecallToolset, SidecallPlugin):
            with self.assertRaisesRegex(WrongField, "^promt_id: there is no such field. Did you mean prompt_id"):
                make(self.s, promt_id="p")
            with self.assertRaisesRegex(WrongField, "^client: want a Sidecall or an AsyncSidecall, got a str"):
                make("unix:///run/s.sock")  # type: ignore[arg-type]


class FunctionsTest(Runs, OwnTest):
    def test_functions_of_the_agent_run_through_the_sidecar(self) -> None:
        def refund(cents: int) -> str:
            """Refund."""
            return self.refund(cents)

        async def greet(name: str, tool_context: ToolContext) -> str:
            """Greet."""
            tool_context.state["greeted"] = name
            return f"Hello {name}"

        for plugins in (True, False):
            with self.subTest(plugins=plugins), Provider(REFUND) as provider:
                self.again()
                events = asyncio.run(
                    self.run_on(provider, plugins, session=f"c-{plugins}", functions=[refund, greet], effects={"refund": "keyed"})
                )
                self.assertEqual(events[-1].content.parts[0].text, "Done.")
                self.assert_refunded(provider, told=str(said(events)))
                self.assertEqual([list(answer) for answer in said(events)], [["result"], ["error"], ["result"]])
                self.assertIn({"greeted": "Zoë"}, [event.actions.state_delta for event in events])

    def test_a_function_that_fails_is_a_failure(self) -> None:
        def fail() -> str:
            """Fail."""
            raise RuntimeError("out of paper")

        with Provider([Say(calls=[("fail", {})]), Say("Sorry.")]) as provider:
            (answer,) = said(asyncio.run(self.run_on(provider, functions=[fail])))
        self.assertIn("out of paper", answer["error"])
