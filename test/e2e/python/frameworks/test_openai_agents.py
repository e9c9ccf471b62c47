"""The OpenAI Agents SDK itself, with OpenAI's own client, and a sidecar."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from openai import AsyncOpenAI
from sidecall import WrongField
from sidecall.adapters.openai_agents import stop_when_told, tools

from frameworks.desk import REFUND, DeskTest, OwnTest
from provider import Provider, Say

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
PAY_BOTH = [Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 7})]), Say("Paid.")]


def config(conversation: str = "c-1") -> RunConfig:
    return RunConfig(group_id=conversation, tracing_disabled=True)


class Runs(DeskTest):
    def setUp(self) -> None:
        super().setUp()
        self.clients: list[AsyncOpenAI] = []

    def go(self, run: Coroutine[Any, Any, Any]) -> Any:
        async def closing() -> Any:
            try:
                return await run
            finally:
                for client in self.clients:
                    await client.close()
                self.clients.clear()

        return asyncio.run(closing())

    def agent(self, provider: Provider, kind: str = "responses", **how: Any) -> Agent[Any]:
        client = AsyncOpenAI(base_url=provider.url + "/v1", api_key="none", max_retries=0)
        self.clients.append(client)
        return Agent(name="desk", model=MODELS[kind]("played", client), **how)


class HeldTest(Runs):
    """A call that waits for a person interrupts the run. Whoever approves it there says only that it
    goes on: the sidecar's operator decides."""

    of_tools: ClassVar[dict[str, dict[str, Any]]] = {"pay": {"approve_when": "args.cents > 100"}}

    def test_a_held_call_interrupts_the_run_and_runs_once_when_it_is_allowed(self) -> None:
        for kind in MODELS:
            with self.subTest(kind), Provider(self.script()) as provider:
                self.go(self.held(provider, kind))

    @staticmethod
    def script() -> list[Say]:
        return [Say(calls=[("pay", {"cents": 101}), ("pay", {"cents": 7})]), Say("Paid.")]

    async def interrupted(self, provider: Provider, kind: str, conversation: str) -> tuple[Agent[Any], RunState[Any, Any]]:
        """A run that has one interruption, and its state as another process has it."""
        how = await tools(self.s, conversation_id=lambda context: context.context["conversation"], interrupt_held=True)
        agent = self.agent(provider, kind, tools=how)
        end = await Runner.run(agent, "Pay.", context={"conversation": conversation}, run_config=config("none"))
        (asked,) = end.interruptions
        self.assertEqual((asked.name, json.loads(asked.arguments)), ("pay", {"cents": 101}))
        return agent, await RunState.from_string(agent, end.to_state().to_string())

    async def go_on(self, agent: Agent[Any], state: RunState[Any, Any]) -> str:
        for asked in state.get_interruptions():
            state.approve(asked)
        return str((await Runner.run(agent, state, run_config=config("none"))).final_output)

    async def held(self, provider: Provider, kind: str) -> None:
        before = len(self.payments())
        self.batches.clear()
        agent, state = await self.interrupted(provider, kind, kind)
        self.assertEqual([call.hold_only for batch in self.batches for call in batch], [True, True, False])
        self.assertEqual(self.payments()[before:], [{"cents": 7}])
        (call,) = self.held_calls()
        self.assertEqual((call.conversation_id, call.tool_use_id), (kind, "call_0_0"))
        self.approve({"conversation_id": kind, "turn_id": call.turn_id, "tool_use_id": call.tool_use_id})
        self.assertEqual(await self.go_on(agent, state), "Paid.")
        self.assertEqual(self.payments()[before:], [{"cents": 7}, {"cents": 101}])
        self.assertEqual(len({call.turn_id for batch in self.batches for call in batch}), 1)
        self.assertEqual(provider.refusals, [])

    def test_what_nobody_has_allowed_or_somebody_denied_is_told_the_model(self) -> None:
        async def run(provider: Provider, conversation: str, denied: bool) -> None:
            agent, state = await self.interrupted(provider, "chat", conversation)
            if denied:
                (call,) = self.held_calls()
                self.deny({"conversation_id": conversation, "turn_id": call.turn_id, "tool_use_id": call.tool_use_id})
            self.assertEqual(await self.go_on(agent, state), "Paid.")

        for code, denied in (("PERMISSION_DENIED", True), ("APPROVAL_REQUIRED", False)):
            with self.subTest(code), Provider(self.script()) as provider:
                self.go(run(provider, code, denied))
                words = self.words()[-1]
                self.assertEqual(json.loads(words)["code"], code)
                self.assertNotIn({"cents": 101}, self.payments())
                told = json.dumps(provider.requests[-1][1], ensure_ascii=False)
                self.assertIn(json.dumps(words, ensure_ascii=False)[1:-1], told)

    def test_what_the_program_rejects_is_not_sent(self) -> None:
        async def run(provider: Provider) -> None:
            agent, state = await self.interrupted(provider, "chat", "rejected")
            state.reject(state.get_interruptions()[0])
            before = len(self.batches)
            self.assertEqual((await Runner.run(agent, state, run_config=config("none"))).final_output, "Paid.")
            self.assertEqual(len(self.batches), before)

        with Provider(self.script()) as provider:
            self.go(run(provider))
        self.assertEqual(self.payments(), [{"cents": 7}])

    def test_an_input_guardrail_still_stops_what_is_held(self) -> None:
        @tool_input_guardrail
        def never(data: Any) -> ToolGuardrailFunctionOutput:
            return ToolGuardrailFunctionOutput.reject_content("not today")

        async def run(provider: Provider) -> str:
            found = await tools(self.s, conversation_id="c", interrupt_held=True)
            for tool in found:
                tool.tool_input_guardrails = [never]
            return str((await Runner.run(self.agent(provider, tools=found), "Pay.", run_config=config())).final_output)

        with Provider([Say(calls=[("pay", {"cents": 7})]), Say("I see.")]) as provider:
            self.assertEqual(self.go(run(provider)), "I see.")
        self.assertEqual(self.payments(), [])

    def test_arguments_that_are_no_json_interrupt_the_run_and_are_explained_when_it_goes_on(self) -> None:
        async def run(provider: Provider) -> None:
            agent = self.agent(provider, tools=await tools(self.s, conversation_id="c", interrupt_held=True))
            end = await Runner.run(agent, "Pay.", run_config=config())
            (asked,) = end.interruptions
            self.assertEqual(self.batches, [])
            state = end.to_state()
            state.approve(asked)
            self.assertEqual((await Runner.run(agent, state, run_config=config())).final_output, "I see.")

        with Provider([Say(calls=[("pay", '{"cents": 5')]), Say("I see.")]) as provider:
            self.go(run(provider))
            self.assert_heard(provider)
        self.assertEqual([json.loads(words)["code"] for words in self.words()], ["INVALID_ARGS"])

    def test_who_asks_first_needs_the_conversation(self) -> None:
        with self.assertRaisesRegex(WrongField, "conversation_id: interrupt_held needs it"):
            self.go(tools(self.s, interrupt_held=True))


class OpenAIAgentsTest(Runs):
    def run_on(self, provider: Provider, kind: str = "responses", conversation: str = "c-1", **how: Any) -> Any:
        async def run() -> Any:
            agent = self.agent(provider, kind, tools=await tools(self.s), **how)
            return await Runner.run(agent, "Pay.", run_config=config(conversation))

        return self.go(run())

    def test_an_agent_pays_in_one_request_a_turn(self) -> None:
        for kind in MODELS:
            with self.subTest(kind), Provider(PAY_BOTH) as provider:
                self.batches.clear()
                before = len(self.payments())
                end = self.run_on(provider, kind, kind)
                self.assertEqual(end.final_output, "Paid.")
                self.assertEqual(len(self.payments()) - before, 2)
                self.assert_heard(provider)
                ((first, second),) = self.batches
                self.assertEqual((first.tool_use_id, second.tool_use_id), ("call_0_0", "call_0_1"))
                self.assertEqual((first.conversation_id, first.turn_id, first.prompt_id), (kind, "1.1", "1"))
                self.answers.clear()

    def test_the_five_fields_reach_the_model_word_for_word(self) -> None:
        script = [Say(calls=[("pay", {"cents": "5"}), ("pay", '{"cents": 5')]), Say("I see.")]
        for kind in MODELS:
            with self.subTest(kind), Provider(script) as provider:
                self.answers.clear()
                self.run_on(provider, kind, kind)
                self.assertEqual([json.loads(w)["code"] for w in self.words()], ["INVALID_ARGS"] * 2)
                self.assert_heard(provider)
        self.assertEqual(self.payments(), [])

    def test_turns_of_two_runs_are_two_turns(self) -> None:
        # The SDK drops a call whose id it has seen in this conversation, so no ids that
        # start again here.
        with Provider(PAY_BOTH * 2) as provider:

            async def run() -> None:
                agent, session = self.agent(provider, tools=await tools(self.s)), SQLiteSession("c")
                for _ in range(2):
                    await Runner.run(agent, "Pay.", run_config=config(), session=session)
                session.close()

            self.go(run())
        self.assertEqual(provider.refusals, [])
        self.assertEqual(len(self.payments()), 4)
        self.assertEqual([(batch[0].turn_id, batch[0].prompt_id) for batch in self.batches], [("1.1", "1"), ("7.1", "7")])

    def test_a_state_that_is_resumed_twice_pays_once(self) -> None:
        """The process dies after the tools ran and before that was kept: what is run
        again is the state from before."""

        @function_tool(needs_approval=True)
        def sign() -> str:
            """Sign."""
            return "signed"

        async def run(provider: Provider, conversation: str) -> list[str]:
            agent = self.agent(provider, tools=[*await tools(self.s), sign])
            waits = await Runner.run(agent, "Pay.", run_config=config(conversation))
            kept, outputs = waits.to_state().to_string(), []
            for _ in range(2):
                state = await RunState.from_string(agent, kept)
                for asked in state.get_interruptions():
                    state.approve(asked)
                outputs.append((await Runner.run(agent, state, run_config=config(conversation))).final_output)
            return outputs

        # What waits for a signature is in a turn before that of the payment, or in its own.
        before = [Say(calls=[("sign", {})]), Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]
        beside = [Say(calls=[("pay", {"cents": 7}), ("sign", {})]), Say("Paid.")]
        for cents, script in ((5, before), (7, beside)):
            with self.subTest(cents=cents), Provider(script) as provider:
                self.batches.clear()
                self.assertEqual(self.go(run(provider, f"c-{cents}")), ["Paid.", "Paid."])
                self.assertEqual(self.payments().count({"cents": cents}), 1)
                self.assertEqual(len({call.turn_id for batch in self.batches for call in batch}), 1)

    def test_a_run_that_goes_round_in_circles_ends(self) -> None:
        with Provider(lambda heard: Say(calls=[("pay", {"cents": 0})])) as provider:
            end = self.run_on(provider, tool_use_behavior=stop_when_told)
        self.assertEqual(json.loads(self.words()[-1])["code"], "LOOP_DETECTED")
        self.assertTrue(self.answers[-1][0].stop)
        self.assertTrue(end.final_output.startswith(self.words()[-1]))

    def test_a_task_that_is_cancelled_cancels_its_call(self) -> None:
        os.mkfifo(self.directory / "gate")

        async def run(provider: Provider) -> None:
            agent = self.agent(provider, tools=await tools(self.s))
            task = asyncio.create_task(Runner.run(agent, "Wait.", run_config=config()))
            await self.begun(task)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(self.rpcs[-1].cancelled())

        with Provider([Say(calls=[("wait", {})]), Say("Done.")]) as provider:
            self.go(run(provider))

    def test_what_is_wrong_is_said_in_one_sentence(self) -> None:
        async def run(provider: Provider, **how: Any) -> None:
            agent = self.agent(provider, tools=await tools(self.s, **how))
            await Runner.run(agent, "Pay.", run_config=RunConfig(tracing_disabled=True))

        wrong: list[tuple[str, Callable[[Provider], Any]]] = [
            (r"conversation_id: this run has none: run it with RunConfig\(group_id", run),
            ("promt_id: there is no such field. Did you mean prompt_id", lambda p: run(p, promt_id="p")),
        ]
        for words, make in wrong:
            with self.subTest(words), Provider(PAY_BOTH) as provider, self.assertRaisesRegex(Exception, words) as raised:
                self.go(make(provider))
            found = raised.exception
            self.assertIsInstance(found if isinstance(found, WrongField) else found.__cause__, WrongField)
        self.assertEqual(self.payments(), [])


class HeldFunctionTest(Runs, OwnTest):
    """The agent's own function, of which the agent asks its user, and the sidecar an operator."""

    backends: ClassVar[dict[str, Any]] = {"own": {"worker": {}, "prefix": "my_", "tools": {"charge": {"approve_when": "args.cents > 100"}}}}

    def test_a_function_interrupts_the_run_for_its_user_and_for_the_operator(self) -> None:
        @function_tool(needs_approval=True)
        def charge(cents: int) -> str:
            """Charge."""
            self.done.append(str(cents))
            return f"charged {cents}"

        async def run(provider: Provider) -> None:
            found = await tools(self.s, functions=[charge], conversation_id="c", interrupt_held=True)
            agent = self.agent(provider, tools=found)
            end = await Runner.run(agent, "Charge.", run_config=config())
            self.assertEqual(len(end.interruptions), 2)
            (call,) = self.held_calls()
            self.assertEqual((call.execution.tool_name, call.tool_use_id), ("my_charge", "call_0_0"))
            self.approve({"conversation_id": "c", "turn_id": call.turn_id, "tool_use_id": call.tool_use_id})
            self.assertEqual(self.done, [])
            state = end.to_state()
            for asked in end.interruptions:
                state.approve(asked)
            self.assertEqual((await Runner.run(agent, state, run_config=config())).final_output, "Charged.")

        with Provider([Say(calls=[("charge", {"cents": 101}), ("charge", {"cents": 1})]), Say("Charged.")]) as provider:
            self.go(run(provider))
        self.assertEqual(sorted(self.done), ["1", "101"])


class FunctionsTest(Runs, OwnTest):
    def test_functions_of_the_agent_run_through_the_sidecar(self) -> None:
        @function_tool
        def refund(cents: int) -> str:
            """Refund."""
            return self.refund(cents)

        @function_tool
        async def greet(context: RunContextWrapper[Any], name: str) -> str:
            """Greet."""
            await asyncio.sleep(0)
            return f"Hello {name}, {context.usage.requests}"

        async def run(provider: Provider, kind: str) -> Any:
            found = await tools(self.s, functions=[refund, greet], effects={"refund": "keyed"})
            agent = self.agent(provider, kind, tools=found, tool_use_behavior=stop_when_told)
            return await Runner.run(agent, "Refund.", run_config=config(kind))

        for kind in MODELS:
            with self.subTest(kind), Provider(REFUND) as provider:
                self.again()
                self.assertEqual(self.go(run(provider, kind)).final_output, "Done.")
                self.assert_refunded(provider)

    def test_a_function_that_fails_is_a_failure(self) -> None:
        @function_tool
        def fail() -> str:
            """Fail."""
            raise RuntimeError("out of paper")

        async def run(provider: Provider) -> Any:
            agent = self.agent(provider, tools=await tools(self.s, functions=[fail]))
            return await Runner.run(agent, "Fail.", run_config=config())

        with Provider([Say(calls=[("fail", {})]), Say("Sorry.")]) as provider:
            self.go(run(provider))
            self.assert_heard(provider)
        self.assertIn("OUTCOME_UNKNOWN", self.words()[0])
        self.assertIn("out of paper", self.words()[0])
