"""A sidecar that belongs to this process."""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import logging
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import grpc

from sidecall._errors import LaunchFailed

#: How long a sidecar has to answer, in seconds.
START = 60.0

#: How long one has to end, in seconds: it lets calls in flight end.
END = 40.0

#: The last lines of its log that a failure quotes.
_LINES = 20

#: The longest path that a unix socket can have everywhere.
_LONGEST_SOCKET = 100

_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}

log = logging.getLogger("sidecall")


class Launched:
    """A running sidecar. It ends when stop is called, or when this process ends,
    however it does: it waits for the end of its standard input."""

    def __init__(self, process: subprocess.Popen[bytes], target: str, directory: Path) -> None:
        self.target = target
        self._process = process
        self._directory = directory
        self._last: collections.deque[str] = collections.deque(maxlen=_LINES)
        assert process.stderr is not None
        # Ends with the log of the process.
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[bytes]) -> None:
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()
            self._last.append(line)
            level, said = _parsed(line)
            log.log(level, "%s", said)

    def await_ready(self, channel: grpc.Channel) -> None:
        """Returns when the sidecar answers."""
        ready = grpc.channel_ready_future(channel)
        try:
            end = time.monotonic() + START
            while time.monotonic() < end:
                try:
                    ready.result(timeout=0.05)
                    return
                except grpc.FutureTimeoutError:
                    pass
                if (ended := self.ended()) is not None:
                    raise ended
            raise LaunchFailed(f"the sidecar does not answer after {START:.0f} s:\n{self._said()}")
        finally:
            ready.cancel()

    def ended(self) -> LaunchFailed | None:
        """How it ended, and what it said at last; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(timeout=5)  # a process of its own may hold its log open
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        return LaunchFailed(f"the sidecar ended with {how}:\n{self._said()}")

    def _said(self) -> str:
        return "\n".join(self._last) or "it said nothing"

    def stop(self) -> None:
        """Lets the sidecar finish what it has begun, and ends it. It may be called
        again."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone already
            self._process.stdin.close()
        try:
            self._process.wait(timeout=END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stderr is not None:
            self._process.stderr.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _parsed(line: str) -> tuple[int, str]:
    """A line of the sidecar's log, as this process logs it."""
    try:
        entry = json.loads(line)
    except ValueError:
        return logging.WARNING, line
    level = _LEVELS.get(entry.get("level", "")) if isinstance(entry, dict) else None
    return (logging.WARNING if level is None else level), line


def launch(
    config: str | os.PathLike[str] | Mapping[str, Any],
    binary: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
) -> Launched:
    """Starts a sidecar; it may not answer yet."""
    program = _program(binary)
    directory = Path(tempfile.mkdtemp(prefix="sidecall-"))
    try:
        path = _config(config, directory)
        target = _target(directory)
        process = _start([program, "serve", "--config", path, "--listen", target, "--until-eof"], env)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return Launched(process, target, directory)


def _start(argv: list[str], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the sidecar
        )  # fmt: skip
    except OSError as e:
        if e.errno == errno.ENOEXEC:
            raise LaunchFailed(f"{argv[0]} is no program for {platform.system()} on {platform.machine()}") from e
        raise LaunchFailed(f"{argv[0]} cannot be started: {e.strerror or e}") from e


def _program(binary: str | os.PathLike[str] | None) -> str:
    """The program: the one that is named, in the environment or by the caller, or the
    one that came with this package, or one on the PATH."""
    named = os.fspath(binary) if binary is not None else os.environ.get("SIDECALL_BINARY", "")
    if named:
        found = shutil.which(named)
        if found is None:
            raise LaunchFailed(f"{named}: there is no such program")
        return found
    name = "sidecall.exe" if sys.platform == "win32" else "sidecall"
    bundled = Path(__file__).parent / "bin" / name
    if bundled.is_file():
        return str(bundled)
    found = shutil.which(name)
    if found is None:
        raise LaunchFailed(
            f"this package came without a sidecar for {platform.system()} on {platform.machine()}, and there is none on the PATH:"
            " name one with binary=, or in SIDECALL_BINARY"
        )
    return found


def _config(config: str | os.PathLike[str] | Mapping[str, Any], directory: Path) -> str:
    if not isinstance(config, Mapping):
        path = os.fspath(config)
        if not os.path.isfile(path):
            raise LaunchFailed(f"{path}: there is no such config file")
        return path
    try:
        written = json.dumps(dict(config), indent=2)
    except (TypeError, ValueError) as e:
        raise LaunchFailed(f"this config cannot be written as YAML: {e}") from e
    file = directory / "sidecall.yaml"  # which JSON is
    file.touch(mode=0o600)
    file.write_text(written, encoding="utf-8")
    return str(file)


def _target(directory: Path) -> str:
    """Where it is to listen: in the directory, which is this user's alone."""
    if sys.platform == "win32":  # gRPC has no unix sockets there
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"tcp://127.0.0.1:{free.getsockname()[1]}"
    path = directory / "agent.sock"
    if len(os.fsencode(path)) > _LONGEST_SOCKET:
        raise LaunchFailed(f"{path} is too long for a unix socket: set TMPDIR to a shorter directory")
    return f"unix://{path}"
