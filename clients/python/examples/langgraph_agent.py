"""A LangGraph agent whose tools a sidecar runs. The model is scripted, so it needs no
account; with a real one, model is ChatAnthropic(model=...), or any other of LangChain's.
usage: langgraph_agent.py [CONFIG], such as clients/examples/sidecall.yaml
"""

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from sidecall import Sidecall
from sidecall.adapters.langchain import SidecallMiddleware


class Scripted(BaseChatModel):
    """Opens a ticket, misspells its priority, and corrects that by what the error says."""

    _llm_type = "scripted"

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        said = AIMessage("The ticket is open.")
        if getattr(messages[-1], "status", "error") == "error":  # nothing done yet, or not well
            arguments = {"title": "Printer on fire", "priority": "urgent" if "Did you mean" in messages[-1].text else "urgnt"}
            said = AIMessage("", tool_calls=[{"id": f"call_{len(messages)}", "name": "create_ticket", "args": arguments}])
        return ChatResult(generations=[ChatGeneration(message=said)])


with Sidecall.launch(sys.argv[1] if len(sys.argv) > 1 else "sidecall.yaml") as s:
    agent = create_agent(Scripted(), middleware=[SidecallMiddleware(s)], checkpointer=InMemorySaver())
    ask: Any = {"messages": [{"role": "user", "content": "The printer is on fire!"}]}
    for message in agent.invoke(ask, {"configurable": {"thread_id": "c-1"}})["messages"]:
        message.pretty_print()
