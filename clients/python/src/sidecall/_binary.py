"""Which program is the sidecar, and the command `sidecall`, which is that program."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import sys
from pathlib import Path

from sidecall._errors import LaunchFailed

#: The exit code of a sidecar that could not start.
_NOT_STARTED = 3

#: What the commands of the clients for Python and Node have in them: they stand for a sidecar
#: and are none.
_COMMANDS = (b"sidecall._binary", b"@sidecall/client")


def found(binary: str | os.PathLike[str] | None = None) -> str:
    """The program: the one that is named, by the caller or in the environment, or the one
    that came with this package, or one on the PATH."""
    if sys.platform not in ("linux", "darwin"):
        raise LaunchFailed(
            f"there is no sidecar for {sys.platform}: run it in WSL or in a container, and connect by address,"
            ' as in Sidecall("tcp://127.0.0.1:8470")'
        )
    named = os.fspath(binary) if binary is not None else os.environ.get("SIDECALL_BINARY", "")
    if named:
        program = shutil.which(named)
        if program is None:
            raise LaunchFailed(f"{named}: there is no such program")
        if _is_command(program):
            raise LaunchFailed(f"{named} is the command of a client, which starts a sidecar, and is none itself")
        return program
    bundled = Path(__file__).parent / "bin" / "sidecall"
    if bundled.is_file():
        return str(bundled)
    for place in os.get_exec_path():
        program = shutil.which("sidecall", path=place)
        if program is not None and not _is_command(program):
            return program
    raise LaunchFailed(
        f"this package came without a sidecar for {platform.system()} on {platform.machine()}, and there is none on the PATH:"
        " install a wheel that has one (make wheel PLATFORMS=here in a clone), or name one with binary=, or in SIDECALL_BINARY"
    )


def _is_command(program: str) -> bool:
    head = b""
    with contextlib.suppress(OSError), open(program, "rb") as file:  # one may be allowed to run it and not to read it
        head = file.read(4096)
    return head.startswith(b"#!") and any(name in head for name in _COMMANDS)


def not_started(program: str, e: OSError) -> LaunchFailed:
    """Why the system does not run a program."""
    if e.errno == errno.ENOEXEC:
        return LaunchFailed(f"{program} is no program for {platform.system()} on {platform.machine()}")
    return LaunchFailed(f"{program} cannot be started: {e.strerror or e}")


def command() -> None:
    """Becomes the sidecar, so that signals and the exit code are its own."""
    try:
        program = found()
        try:
            os.execv(program, [program, *sys.argv[1:]])
        except OSError as e:
            raise not_started(program, e) from e
    except LaunchFailed as e:
        print(f"sidecall: {e}", file=sys.stderr)
        sys.exit(_NOT_STARTED)
