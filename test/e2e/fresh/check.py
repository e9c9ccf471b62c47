"""Runs an agent in an environment that has nothing but the package, and holds it to what
it is for: its own function is tried again, the MCP server's tool answers, nothing runs
twice, and a trace of both arrives.

usage: check.py SERVER COMMAND..., in the agent's directory
SERVER is the program of @modelcontextprotocol/server-filesystem.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arrived: list[bytes] = []


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            arrived.append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(server: str, command: list[str]) -> None:
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SIDECALL_"))}
    env |= {
        "MCP_FILES": server, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
    }  # fmt: skip
    begun = time.monotonic()
    said = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    took = time.monotonic() - begun
    lines = [line for line in said.splitlines() if line.startswith(("ran ", "again "))]
    assert [line.split()[0] for line in lines] == ["ran", "ran", "again", "again"], said
    assert [line.partition(" ")[2] for line in lines[::2]] == ["refunded 5 in attempt 2"] * 2, said
    assert said.count("[FILE] sidecall.yaml") == 2, said
    spans = b"".join(arrived)
    for name in (b"execute_tool refund", b"execute_tool files_list_directory"):
        assert name in spans, f"no span of {name!r} arrived"
    print(f"{os.path.basename(command[-1])}: own function and MCP server, retried, run once, traced; {took:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
