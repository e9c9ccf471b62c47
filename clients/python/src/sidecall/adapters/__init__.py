"""Sidecall in an agent framework that has its own loop: one module for each.

    pip install 'sidecall[langchain]'        from sidecall.adapters import langchain
    pip install 'sidecall[openai-agents]'    from sidecall.adapters import openai_agents
    pip install 'sidecall[pydantic-ai]'      from sidecall.adapters import pydantic_ai
    pip install 'sidecall[google-adk]'       from sidecall.adapters import google_adk
    pip install 'sidecall[llama-index]'      from sidecall.adapters import llama_index

Each offers the sidecar's tools to the framework, as its own kind of tool, and sends
the calls of the model through the sidecar under the ids that the framework has for
them. Functions of the agent's own go there too, when it is given them. Nothing of a framework is imported before its module is.
"""
