"""The example of an agent runs as it stands."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CLIENTS = Path(__file__).parents[4] / "clients"


class ExampleTest(unittest.TestCase):
    def test_the_langgraph_agent_corrects_itself(self) -> None:
        with tempfile.TemporaryDirectory(prefix="desk-") as directory:
            desk = Path(directory) / "sidecall.yaml"
            lines = (CLIENTS / "examples" / "sidecall.yaml").read_text().splitlines(keepends=True)
            desk.write_text("".join(line for line in lines if not line.startswith("listen:")))
            agent = subprocess.run(
                [sys.executable, "-B", str(CLIENTS / "python" / "examples" / "langgraph_agent.py"), str(desk)],
                cwd=directory, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(agent.returncode, 0, agent.stderr)
            self.assertIn('Did you mean', agent.stdout)
            self.assertTrue(agent.stdout.endswith("The ticket is open.\n"), agent.stdout)
            tickets = [json.loads(line) for line in (Path(directory) / "tickets.jsonl").read_text().splitlines() if line]
        self.assertEqual(tickets, [{"title": "Printer on fire", "priority": "urgent"}])
