"""Which program is the sidecar, and the command that is that program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from sidecall import LaunchFailed, Sidecall, _binary

#: What pip makes of the entry in pyproject.toml, and npm and pnpm of that in package.json.
COMMANDS = {
    "python": "#!/usr/bin/python3\nimport sys\nfrom sidecall._binary import command\nsys.exit(command())\n",
    "node": "#!/bin/sh\n# the sidecar of @sidecall/client\n",
}
ECHO = "#!/bin/sh\necho $0 \"$@\"\nexit 7\n"


class BinaryTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        # As it is where nothing came with the package.
        self.patch(mock.patch.object(_binary, "__file__", str(self.directory / "sidecall" / "_binary.py")))
        self.patch(mock.patch.dict(os.environ, {"PATH": f"{self.directory / 'a'}:{self.directory / 'b'}"}))
        os.environ.pop("SIDECALL_BINARY", None)

    def patch(self, patched: mock._patch[str] | mock._patch_dict) -> None:
        patched.start()
        self.addCleanup(patched.stop)

    def program(self, name: str, text: str = ECHO) -> str:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o700)
        return str(file)

    def refused(self, says: str, binary: str | None = None) -> None:
        with self.assertRaisesRegex(LaunchFailed, says):
            _binary.found(binary)

    def test_where_the_program_comes_from(self) -> None:
        self.refused("came without a sidecar for .* .make wheel PLATFORMS=here")
        sidecar = self.program("b/sidecall")
        self.assertEqual(_binary.found(), sidecar)
        bundled = self.program("sidecall/bin/sidecall")
        self.assertEqual(_binary.found(), bundled)
        os.environ["SIDECALL_BINARY"] = self.program("c/other")
        self.assertEqual(_binary.found(), os.environ["SIDECALL_BINARY"])
        self.assertEqual(_binary.found(sidecar), sidecar)
        self.refused("/no/program: there is no such program", "/no/program")

    def test_a_command_of_a_client_is_no_sidecar(self) -> None:
        for text in COMMANDS.values():
            command = self.program("a/sidecall", text)
            self.refused("there is none on the PATH")
            self.refused("is the command of a client", command)
        sidecar = self.program("b/sidecall")
        self.assertEqual(_binary.found(), sidecar)

    def test_where_there_is_none_it_says_what_to_do(self) -> None:
        self.patch(mock.patch.object(sys, "platform", "win32"))
        with self.assertRaisesRegex(LaunchFailed, "there is no sidecar for win32: run it in WSL or in a container, and connect by address"):
            Sidecall.launch({}, binary=self.program("a/sidecall"))

    def run_command(self, binary: str) -> subprocess.CompletedProcess[str]:
        code = "from sidecall._binary import command; command()"
        env = {**os.environ, "SIDECALL_BINARY": binary, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run([sys.executable, "-c", code, "check", "a b"], env=env, capture_output=True, text=True, check=False)

    def test_the_command_is_the_program(self) -> None:
        sidecar = self.program("c/sidecall")
        ran = self.run_command(sidecar)
        path, *arguments = ran.stdout.split(" ")
        self.assertEqual((path, arguments, ran.returncode), (sidecar, ["check", "a", "b\n"], 7))
        self.assertEqual(self.run_command(self.program("c/killed", "#!/bin/sh\nkill -TERM $$\n")).returncode, -15)

    def test_a_command_without_a_program(self) -> None:
        ran = self.run_command("/no/program")
        self.assertEqual((ran.stdout, ran.stderr, ran.returncode), ("", "sidecall: /no/program: there is no such program\n", 3))
        ran = self.run_command(self.program("c/none", "\x7fELF of another machine"))
        self.assertIn("c/none is no program for ", ran.stderr)
        self.assertEqual(ran.returncode, 3)


if __name__ == "__main__":
    unittest.main()
