"""A model for LlamaIndex by OpenAI's own client. LlamaIndex's packages for providers
want older versions of these clients than the other frameworks do: its package for
OpenAI cannot be installed beside them, and the one for Anthropic breaks with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from openai import AsyncOpenAI


class Played(FunctionCallingLLM):
    """Chat Completions at a URL."""

    _url: str = PrivateAttr()

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="played", is_chat_model=True, is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools: Sequence[BaseTool], chat_history: list[ChatMessage] | None = None, **kwargs: Any) -> Any:
        return {"messages": chat_history or [], "tools": [tool.metadata.to_openai_tool() for tool in tools]}

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        async with AsyncOpenAI(base_url=self._url + "/v1", api_key="none", max_retries=0) as client:
            completion = await client.chat.completions.create(
                model="played", messages=[_written(m) for m in messages], tools=kwargs.get("tools") or []
            )
        said = completion.choices[0].message
        calls = [call.model_dump() for call in said.tool_calls or []]
        about = {"tool_calls": calls} if calls else {}
        return ChatResponse(message=ChatMessage(role="assistant", content=said.content, additional_kwargs=about))

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(tool_id=c["id"], tool_name=c["function"]["name"], tool_kwargs=json.loads(c["function"]["arguments"]))
            for c in response.message.additional_kwargs.get("tool_calls", [])
        ]

    async def _unused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    chat = complete = stream_chat = stream_complete = acomplete = astream_chat = astream_complete = _unused


def _written(message: ChatMessage) -> Any:
    return {"role": message.role.value, "content": message.content or None, **message.additional_kwargs}
