import time

from sidecall import Call, Context, Failure, Sidecall

with Sidecall.launch("sidecall.yaml") as s:

    @s.tool(effect="keyed")
    def refund(cents: int, context: Context) -> str:
        if context.attempt == 1:
            raise Failure("the bank is away", not_run=True)
        return f"refunded {cents} in attempt {context.attempt}"

    with s.work():
        while not any(tool.name == "files_list_directory" for tool in s.list_tools()):  # until the MCP server has said what it has
            time.sleep(0.05)
        calls = [Call("1", "refund", {"cents": 5}), Call("2", "files_list_directory", {"path": "."})]
        for _ in range(2):
            for result in s.execute_tools(calls, conversation_id="c"):
                print("again" if result.replayed else "ran", result.content)
