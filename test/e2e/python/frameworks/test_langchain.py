"""LangChain and LangGraph themselves, their own clients of the providers, and a sidecar."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Annotated, Any, ClassVar, TypedDict

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Command, interrupt
from sidecall import AsyncSidecall, WrongField, WrongTool
from sidecall.adapters.langchain import SidecallMiddleware, tools

from frameworks.desk import REFUND, DeskTest, OwnTest
from provider import Heard, Provider, Say

THREAD: Any = {"configurable": {"thread_id": "c-1"}}
THREAD_2: Any = {"configurable": {"thread_id": "c-2"}}
PAY_BOTH = [Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 7})]), Say("Paid.")]


def models(provider: Provider) -> dict[str, Any]:
    chat = {"base_url": provider.url + "/v1", "api_key": "none", "model": "played", "max_retries": 0}
    return {
        "anthropic": ChatAnthropic(base_url=provider.url, api_key="none", model="played", max_retries=0, max_tokens=100),
        "chat": ChatOpenAI(**chat),
        "responses": ChatOpenAI(use_responses_api=True, **chat),
    }


def ask(text: str = "Pay.") -> Any:
    return {"messages": [HumanMessage(text)]}


def results(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


class LangChainTest(DeskTest):
    def test_an_agent_pays_by_every_provider(self) -> None:
        for name in ("anthropic", "chat", "responses"):
            with self.subTest(name), Provider(PAY_BOTH) as provider:
                agent = create_agent(models(provider)[name], middleware=[SidecallMiddleware(self.s)])
                before = len(self.payments())
                end = agent.invoke(ask(), {"configurable": {"thread_id": name}})
                self.assertEqual(provider.refusals, [])
                self.assertEqual([m.tool_call_id for m in results(end)], ["call_0_0", "call_0_1"])
                self.assertEqual(end["messages"][-1].text, "Paid.")
                self.assertEqual(len(self.payments()) - before, 2)

    def test_a_call_is_known_by_the_ids_of_the_graph(self) -> None:
        with Provider(PAY_BOTH) as provider:
            agent = create_agent(models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s)])
            end = asyncio.run(agent.ainvoke({"messages": [HumanMessage("Pay.", id="said-1")]}, THREAD))
        ((first, second),) = self.batches  # one request for the turn
        self.assertEqual((first.tool_use_id, second.tool_use_id), ("call_0_0", "call_0_1"))
        for call in (first, second):
            self.assertEqual((call.conversation_id, call.turn_id, call.prompt_id), ("c-1", end["messages"][1].id, "said-1"))

    def test_the_five_fields_reach_the_model_word_for_word(self) -> None:
        script = [Say(calls=[("pay", {"cents": "5"}), ("payy", {}), ("pay", {"cents": 5, "how": "cahs"})]), Say("I see.")]
        for name in ("anthropic", "chat", "responses"):
            with self.subTest(name), Provider(script) as provider:
                self.answers.clear()
                agent = create_agent(models(provider)[name], middleware=[SidecallMiddleware(self.s)])
                end = agent.invoke(ask(), {"configurable": {"thread_id": name}})
                self.assertEqual([m.status for m in results(end)], ["error"] * 3)
                self.assertEqual(sorted(json.loads(w)["code"] for w in self.words()), ["INVALID_ARGS", "INVALID_ARGS", "UNKNOWN_TOOL"])
                self.assert_heard(provider)
        self.assertEqual(self.payments(), [])

    def test_arguments_that_are_no_json_are_answered_and_corrected(self) -> None:
        def script(heard: Heard) -> Say:
            if not heard.turns:
                return Say(calls=[("pay", '{"cents": 5')])
            return Say("Paid.") if '"cents"' in heard.results[0] and "code" not in heard.results[0] else Say(calls=[("pay", {"cents": 5})])

        with Provider(script) as provider:
            agent = create_agent(models(provider)["chat"], middleware=[SidecallMiddleware(self.s)])
            end = agent.invoke(ask(), THREAD)
        self.assertEqual([m.status for m in results(end)], ["error", "success"])
        self.assertEqual(json.loads(self.words()[0])["code"], "INVALID_ARGS")
        self.assert_heard(provider)
        self.assertEqual(self.payments(), [{"cents": 5}])

    def test_a_message_that_was_cut_runs_nothing(self) -> None:
        with Provider([Say(calls=[("pay", {"cents": 5})], stop_reason="max_tokens"), Say("Sorry.")]) as provider:
            agent = create_agent(models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s)])
            (result,) = results(agent.invoke(ask(), THREAD))
        self.assertIn("CANCELLED", result.text)
        self.assertEqual(self.payments(), [])

    def test_functions_of_the_agent_stay_its_own(self) -> None:
        @tool
        def greet(name: str) -> str:
            """Greet."""
            return f"Hello {name}"

        with Provider([Say(calls=[("greet", {"name": "Zoë"}), ("pay", {"cents": 5})]), Say("Done.")]) as provider:
            agent = create_agent(models(provider)["anthropic"], tools=[greet], middleware=[SidecallMiddleware(self.s)])
            end = agent.invoke(ask(), THREAD)
        self.assertEqual(results(end)[0].text, "Hello Zoë")
        self.assertEqual(len(self.payments()), 1)

    def test_an_argument_called_runtime_is_the_tools(self) -> None:
        for tools_of in (lambda: [], lambda: tools(self.s)):
            with self.subTest(), Provider([Say(calls=[("start", {"runtime": "python"})]), Say("Started.")]) as provider:
                mine = tools_of()
                middleware = [] if mine else [SidecallMiddleware(self.s)]
                agent = create_agent(models(provider)["anthropic"], tools=mine, middleware=middleware)
                (result,) = results(agent.invoke(ask(), {"configurable": {"thread_id": f"c-{len(mine)}"}}))
                self.assertEqual(json.loads(result.text), {"runtime": "python"})

    def test_ids_that_start_again_in_every_turn_are_other_calls(self) -> None:
        with Provider([*PAY_BOTH[:1], *PAY_BOTH], ids=lambda turn, i: f"call_{i}") as provider:
            agent = create_agent(models(provider)["chat"], middleware=[SidecallMiddleware(self.s)])
            agent.invoke(ask(), THREAD)
        self.assertEqual(len(self.payments()), 4)

    def test_an_agent_that_goes_round_in_circles_ends(self) -> None:
        with Provider(lambda heard: Say(calls=[("pay", {"cents": 0})])) as provider:
            agent = create_agent(models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s)])
            end = agent.invoke(ask(), {**THREAD, "recursion_limit": 200})
        self.assertIn("LOOP_DETECTED", end["messages"][-1].text)
        self.assertTrue(end["messages"][-1].artifact["sidecall"]["stop"])

    def test_a_task_that_is_cancelled_cancels_its_call(self) -> None:
        os.mkfifo(self.directory / "gate")

        async def run(provider: Provider) -> None:
            agent = create_agent(models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s)])
            task = asyncio.create_task(agent.ainvoke(ask(), THREAD))
            await self.begun(task)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(self.rpcs[-1].cancelled())

        with Provider([Say(calls=[("wait", {})]), Say("Done.")]) as provider:
            asyncio.run(run(provider))

    def test_an_async_client_serves_async_agents(self) -> None:
        async def run(provider: Provider) -> Any:
            async with AsyncSidecall(self.s._launched.target) as s:
                middleware = SidecallMiddleware(s, listed=await s.list_tools())
                agent = create_agent(models(provider)["anthropic"], middleware=[middleware])
                return await agent.ainvoke(ask(), THREAD)

        with Provider(PAY_BOTH) as provider:
            self.assertEqual(asyncio.run(run(provider))["messages"][-1].text, "Paid.")
        self.assertEqual(len(self.payments()), 2)

    def test_what_is_wrong_is_said_in_one_sentence(self) -> None:
        with Provider(PAY_BOTH) as provider:
            agent = create_agent(models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s)])
            with self.assertRaisesRegex(WrongField, r"^conversation_id: this run has none: .*thread_id"):
                agent.invoke(ask())
        with self.assertRaisesRegex(WrongField, "^client: want a Sidecall or an AsyncSidecall, got a str"):
            SidecallMiddleware("unix:///run/s.sock")  # type: ignore[arg-type]
        with self.assertRaisesRegex(WrongField, "^promt_id: there is no such field. Did you mean prompt_id"):
            SidecallMiddleware(self.s, promt_id="p")

        async def awaits() -> None:
            async with AsyncSidecall(self.s._launched.target) as s:
                SidecallMiddleware(s)

        with self.assertRaisesRegex(WrongField, "^client: this is an AsyncSidecall, and"):
            asyncio.run(awaits())
        pay = next(t for t in tools(self.s) if t.name == "pay")
        with self.assertRaisesRegex(WrongField, "^tool_call_id: call this tool with a tool call"):
            pay.invoke({"cents": 5}, THREAD)
        self.assertEqual(self.payments(), [])


class HeldTest(DeskTest):
    """A call that waits for a person interrupts the graph, and runs once when it is resumed after
    somebody has allowed it."""

    of_tools: ClassVar[dict[str, dict[str, Any]]] = {"pay": {"approve_when": "args.cents > 100"}}

    def test_it_is_paid_once_it_is_allowed(self) -> None:
        for awaits in (False, True):
            says = [Say(calls=[("pay", {"cents": 5}), ("pay", {"cents": 101})]), Say("Paid.")]
            with self.subTest(awaits=awaits), Provider(says) as provider:
                asyncio.run(self.held(provider, awaits))

    async def held(self, provider: Provider, awaits: bool) -> None:
        before, thread = len(self.payments()), {"configurable": {"thread_id": f"held-{awaits}"}}
        middleware = [SidecallMiddleware(self.s, interrupt_held=True)]
        agent: Any = create_agent(models(provider)["anthropic"], middleware=middleware, checkpointer=InMemorySaver())

        async def run(of: Any) -> Any:
            return await (agent.ainvoke(of, thread) if awaits else asyncio.to_thread(agent.invoke, of, thread))

        state = await run(ask())
        for _ in range(2):  # resumed before anybody has allowed it, it waits again
            (waits,) = state["__interrupt__"]
            self.assertEqual(waits.value["arguments"], {"cents": 101})
            self.assertEqual(waits.value["hold"]["reason"], "approve_when: args.cents > 100")
            self.assertEqual([p["cents"] for p in self.payments()[before:]], [5])
            state = await run(Command(resume="go on"))
        self.approve(state["__interrupt__"][0].value)
        end = await run(Command(resume="go on"))
        self.assertEqual(end["messages"][-1].text, "Paid.")
        self.assertEqual([p["cents"] for p in self.payments()[before:]], [5, 101])
        self.assertEqual([m.status for m in results(end)], ["success", "success"])
        self.assertEqual(provider.refusals, [])

    def test_a_model_is_told_where_no_graph_is_interrupted(self) -> None:
        with Provider([Say(calls=[("pay", {"cents": 101})]), Say("Somebody has to allow it.")]) as provider:
            agent = create_agent(models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s)])
            end = agent.invoke(ask(), THREAD)
            self.assertIn("APPROVAL_REQUIRED", results(end)[0].text)
            self.assertEqual(self.payments(), [])


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


class ResumeTest(DeskTest):
    """A graph is interrupted after its tools ran, in the same node: when it is resumed,
    LangGraph runs the node from its start."""

    def graph(self, node: ToolNode, model: Any) -> Any:
        def think(state: State) -> Any:
            return {"messages": [model.invoke(state["messages"])]}

        def act(state: State, config: RunnableConfig) -> Any:
            ran = node.invoke(state, config)
            interrupt("Is that in order?")
            return ran

        graph = StateGraph(State)
        graph.add_node("think", think)
        graph.add_node("act", act)
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", lambda state: "act" if state["messages"][-1].tool_calls else END)
        graph.add_edge("act", "think")
        return graph.compile(checkpointer=InMemorySaver())

    def run_and_resume(self, functions: list[Any]) -> list[ToolMessage]:
        with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]) as provider:
            model = models(provider)["anthropic"].bind_tools(functions)
            graph = self.graph(ToolNode(functions), model)
            self.assertIn("__interrupt__", graph.invoke(ask(), THREAD))
            end = graph.invoke(Command(resume="yes"), THREAD)
            self.assertEqual(end["messages"][-1].text, "Paid.")
            self.assertEqual(provider.refusals, [])
        return results(end)

    def test_without_a_sidecar_it_pays_twice_and_with_one_once(self) -> None:
        paid = []

        @tool
        def pay(cents: int) -> str:
            """Pay."""
            paid.append(cents)
            return "paid"

        self.run_and_resume([pay])
        self.assertEqual(paid, [5, 5])  # LangGraph by itself

        (result,) = self.run_and_resume(tools(self.s))
        self.assertEqual(self.payments(), [{"cents": 5}])
        self.assertTrue(result.artifact["sidecall"]["replayed"])
        self.assertEqual(json.loads(result.text), {"cents": 5})
        # It did go there twice, under one id.
        self.assertEqual([[c.tool_use_id for c in batch] for batch in self.batches], [["call_0_0"], ["call_0_0"]])
        self.assertEqual(len({(c.turn_id, c.prompt_id) for batch in self.batches for c in batch}), 1)


class FunctionsTest(OwnTest):
    def functions(self) -> list[Any]:
        def refund(cents: int) -> str:
            """Refund."""
            return self.refund(cents)

        async def greet(name: str) -> str:
            """Greet."""
            await asyncio.sleep(0)
            return f"Hello {name}"

        def greet_waiting(name: str) -> str:
            return f"Hello {name}"

        return [refund, StructuredTool.from_function(greet_waiting, greet, "greet", "Greet.")]

    def test_functions_of_the_agent_run_through_the_sidecar(self) -> None:
        for way, run in (
            ("awaits", lambda agent: asyncio.run(agent.ainvoke(ask(), THREAD))),
            ("waits", lambda agent: agent.invoke(ask(), THREAD_2)),
        ):
            with self.subTest(way), Provider(REFUND) as provider:
                self.again()
                middleware = SidecallMiddleware(self.s, functions=self.functions(), effects={"refund": "keyed"})
                end = run(create_agent(models(provider)["anthropic"], middleware=[middleware]))
                self.assert_refunded(provider)
                self.assertEqual([m.status for m in results(end)], ["success", "error", "success"])
                self.assertTrue(results(end)[0].artifact["sidecall"])

    def test_an_async_client_runs_them_too(self) -> None:
        async def run(provider: Provider) -> Any:
            async with AsyncSidecall(self.s._launched.target) as s:
                middleware = SidecallMiddleware(s, listed=await s.list_tools(), functions=self.functions())
                return await create_agent(models(provider)["anthropic"], middleware=[middleware]).ainvoke(ask(), THREAD)

        with Provider(REFUND) as provider:
            self.assertEqual([m.status for m in results(asyncio.run(run(provider)))], ["success", "error", "success"])
        self.assertEqual(len(self.done), 1)

    def test_a_graph_that_is_resumed_runs_a_function_once(self) -> None:
        paid = []

        @tool
        def pay(cents: int) -> str:
            """Pay."""
            paid.append(cents)
            return "paid"

        middleware = SidecallMiddleware(self.s, functions=[pay])
        node = ToolNode(middleware.tools, wrap_tool_call=middleware.wrap_tool_call)
        with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]) as provider:
            model = models(provider)["anthropic"].bind_tools(middleware.tools)
            graph = ResumeTest.graph(self, node, model)  # type: ignore[arg-type]
            self.assertIn("__interrupt__", graph.invoke(ask(), THREAD))
            (result,) = results(graph.invoke(Command(resume="yes"), THREAD))
        self.assertEqual(paid, [5])
        self.assertTrue(result.artifact["sidecall"]["replayed"])
        self.assertEqual(result.text, "paid")

    def test_a_function_that_asks_a_person_goes_on_where_it_was(self) -> None:
        @tool
        def pay(cents: int) -> str:
            """Pay."""
            said = interrupt("May I?")
            self.done.append(said)
            return f"paid, as you said {said}"

        with Provider([Say(calls=[("pay", {"cents": 5})]), Say("Paid.")]) as provider:
            agent = create_agent(
                models(provider)["anthropic"], middleware=[SidecallMiddleware(self.s, functions=[pay])], checkpointer=InMemorySaver()
            )
            self.assertIn("__interrupt__", agent.invoke(ask(), THREAD))
            (result,) = results(agent.invoke(Command(resume="yes"), THREAD))
        self.assertEqual((result.text, self.done), ("paid, as you said yes", ["yes"]))

    def test_what_a_function_has_for_the_graph_gets_there(self) -> None:
        @tool(response_format="content_and_artifact")
        def look(runtime: ToolRuntime) -> Any:
            """Look."""
            return f"{len(runtime.state['messages'])} messages", {"seen": 1}

        @tool
        def move(tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
            """Move."""
            return Command(update={"messages": [ToolMessage("Moved.", tool_call_id=tool_call_id)]})

        @tool
        def fail() -> str:
            """Fail."""
            raise RuntimeError("out of paper")

        @tool
        def jam() -> str:
            """Jam."""
            raise FileNotFoundError("no paper")

        calls = [("look", {}), ("move", {}), ("fail", {}), ("jam", {})]
        with Provider([Say(calls=calls), Say("Done.")]) as provider:
            middleware = SidecallMiddleware(
                self.s, functions=[look, move, fail, jam], effects={"look": "read_only"}, fails_cleanly={"jam": OSError}
            )
            agent = create_agent(models(provider)["anthropic"], middleware=[middleware])
            looked, moved, failed, jammed = results(agent.invoke(ask(), THREAD))
            self.assertEqual(provider.refusals, [])
        self.assertEqual((looked.text, looked.artifact["seen"], moved.text), ("2 messages", 1, "Moved."))
        self.assertIn('"code":"OUTCOME_UNKNOWN"', failed.text)  # its word is no proof
        self.assertIn("out of paper", failed.text)
        self.assertIn('"code":"UNRECOVERABLE"', jammed.text)  # as it says that it has done nothing then

    def test_what_is_wrong_with_a_function_is_said_at_once(self) -> None:
        refund, greet = self.functions()
        for said, error, says in (
            ({"functions": [refund, refund]}, WrongTool, "the function refund cannot be a tool: there is one of that name"),
            ({"functions": [refund], "effects": {"refund": "keyd"}}, WrongTool, "there is no effect 'keyd'. Did you mean keyed"),
            ({"functions": [greet], "effects": {"refund": "keyed"}}, WrongField, "there is no such function; known are greet"),
        ):
            with self.subTest(says), self.assertRaisesRegex(error, says):
                SidecallMiddleware(self.s, **said)  # type: ignore[arg-type]
        self.assertEqual([t.name for t in self.s.list_tools() if t.name.startswith("my_")], [])
