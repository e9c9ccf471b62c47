"""A sidecar that belongs to this process."""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from sidecall._binary import found, not_started
from sidecall._errors import LaunchFailed
from sidecall._request import seconds

#: How long a sidecar has to be ready, in seconds, unless launch is told otherwise.
START = 60.0

#: How much longer it has to say that it is not, in seconds.
_GRACE = 5.0

#: How long one has to end, in seconds: it lets calls in flight end.
END = 40.0

#: The last lines of its log that a failure quotes.
_LINES = 20

_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}

log = logging.getLogger("sidecall")

#: Those of this process.
_running: weakref.WeakSet[Launched] = weakref.WeakSet()


class Launched:
    """A running sidecar. It ends when stop is called, or when this process ends,
    however it does: it waits for the end of its standard input. One that other programs
    have launched too goes on for them."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path | None) -> None:
        self._process = process
        _running.add(self)
        self._directory = directory
        self._last: collections.deque[str] = collections.deque(maxlen=_LINES)
        self._told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        assert process.stderr is not None
        assert process.stdout is not None
        # They end with what the process says.
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._hearer = threading.Thread(target=self._hear, args=(process.stdout,), daemon=True)
        self._reader.start()
        self._hearer.start()
        self._stays = False
        #: Of another process, which this one is a fork of.
        self._is_anothers = False
        #: Where it serves, once it is awaited.
        self.target = ""

    def _read(self, lines: IO[bytes]) -> None:
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()
            self._last.append(line)
            level, said = _parsed(line)
            log.log(level, "%s", said)

    def _hear(self, lines: IO[bytes]) -> None:
        for raw in lines:
            told = None
            with contextlib.suppress(ValueError):
                told = json.loads(raw)
            if isinstance(told, dict) and ("listen" in told or "stays" in told):  # else a script around it has said it
                self._told.put(told)
        self._told.put(None)

    def await_ready(self, timeout: float) -> None:
        """Returns when the sidecar is ready, or has had its time: then the log says
        which backends are missing."""
        try:
            told = self._told.get(timeout=timeout + _GRACE)
        except queue.Empty:
            raise LaunchFailed(f"the sidecar does not answer after {timeout:g} s:\n{self._said()}") from None
        if told is None:
            self._process.wait()
            raise self.ended() or AssertionError("it has ended")
        self.target = told["listen"]
        for backend, why in told.get("missing", {}).items():
            log.warning(
                "the tools of the backend %s are not there after %g s (%s): they are not listed until they are. "
                "Ask for tools() again later; with optional: true the backend is not waited for", backend, timeout, why,
            )  # fmt: skip

    def ended(self) -> LaunchFailed | None:
        """How it ended, and what it said at last; None while it runs."""
        code = None if self._is_anothers else self._process.poll()
        if code is None:
            return None
        self._reader.join(timeout=5)  # a process of its own may hold its log open
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        return LaunchFailed(f"the sidecar ended with {how}:\n{self._said()}")

    def _said(self) -> str:
        return "\n".join(self._last) or "it said nothing"

    def stop(self) -> None:
        """Lets the sidecar finish what it has begun, and ends it, unless others have
        launched it too. It may be called again."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # it is gone already
            self._process.stdin.close()
        self._hearer.join(timeout=END)
        self._stays = self._stays or self._says_that_it_stays()
        if self._stays:  # whenever it ends, it leaves no zombie
            threading.Thread(target=self._process.wait, name="sidecall-stays", daemon=True).start()
        else:
            if self._hearer.is_alive():
                self._process.kill()
            self._process.wait()
        for reader in (self._hearer, self._reader):
            reader.join(timeout=5)
        self._process.stdout.close()
        if self._process.stderr is not None:
            self._process.stderr.close()
        _remove(self._directory)

    def forget(self) -> None:
        """Lets go of its standard input: it is that of the process that this one is a fork
        of, and ends with that; nothing is known here of its end."""
        self._is_anothers = True
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _says_that_it_stays(self) -> bool:
        """Whether it says that it goes on for others."""
        while not self._told.empty():
            told = self._told.get()
            if told is not None and told.get("stays"):
                return True
        return False


def _forget_all() -> None:
    for launched in list(_running):
        launched.forget()


if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
    os.register_at_fork(after_in_child=_forget_all)


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
    start_timeout: float | timedelta,
) -> Launched:
    """Starts a sidecar, and returns when it is ready."""
    timeout = seconds(start_timeout, "start_timeout")
    program = found(binary)
    argv = [program, "serve", "--launched", f"--start-timeout={timeout * 1000:.0f}ms"]
    directory = None
    try:
        if isinstance(config, Mapping):
            directory = Path(tempfile.mkdtemp(prefix="sidecall-"))  # of this user alone
            # Its relative paths are seen from where this process is; and others may go on with
            # it when the file is gone.
            env = {"SIDECALL_DIR": os.environ.get("SIDECALL_DIR") or os.getcwd(), **(env or {})}
            argv += ["--config", _written(config, directory), "--watch=false"]
        else:
            argv += ["--config", _file(config)]
        started = Launched(_start(argv, env), directory)
    except BaseException:
        _remove(directory)
        raise
    try:
        started.await_ready(timeout)
    except BaseException:
        started.stop()
        raise
    return started


def _start(argv: list[str], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the sidecar
        )  # fmt: skip
    except OSError as e:
        raise not_started(argv[0], e) from e


def _file(config: str | os.PathLike[str]) -> str:
    path = os.fspath(config)
    if not os.path.isfile(path):
        raise LaunchFailed(f"{path}: there is no such config file")
    return path


def _written(config: Mapping[str, Any], directory: Path) -> str:
    try:
        written = json.dumps(dict(config), indent=2)
    except (TypeError, ValueError) as e:
        raise LaunchFailed(f"this config cannot be written as YAML: {e}") from e
    file = directory / "sidecall.yaml"  # which JSON is
    file.touch(mode=0o600)
    file.write_text(written, encoding="utf-8")
    return str(file)


def _remove(directory: Path | None) -> None:
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
