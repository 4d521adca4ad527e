"""A running sandboxed process: lines in, lines out, and a watch that ends it at its limits."""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from perf_runner.sandbox import (
    Launch,
    Limits,
    Sandbox,
    command_line,
    next_uid,
    sandbox_environment,
)
from perf_runner.seccomp import seccomp_program

WATCH_INTERVAL_S = 0.1
DISK_INTERVAL_S = 1.0
STDERR_KEPT_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
COUNTED_MEMORY = ("RssAnon:", "RssShmem:")


class StoppedBy(StrEnum):
    """The limit that ended a process before it ended by itself."""

    TIME = "the time limit"
    MEMORY = "the memory limit"
    OUTPUT = "the output limit"
    DISK = "the disk limit"
    CALLER = "the caller"


@dataclass(frozen=True)
class Finished:
    """How a process ended: `returncode` as subprocess has it, and the last of what it wrote to stderr."""

    returncode: int
    stdout: bytes
    stderr: str
    stopped_by: StoppedBy | None
    wall_s: float

    def reason(self) -> str:
        """Say in one line why the process ended badly."""
        if self.stopped_by is not None:
            return f"it was stopped by {self.stopped_by}"
        said = [line.strip() for line in self.stderr.splitlines() if line.strip()][-1:]
        return f"it ended with code {self.returncode}" + (f": {said[0][:300]}" if said else "")


class ProcessEndedError(RuntimeError):
    """The process ended while an answer was awaited; `finished` says how."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(finished.reason())
        self.finished = finished


class SandboxedProcess:
    """One process behind the sandbox (`sandbox=None`: unconfined, for code of our own only).

    Use it as a context manager: leaving the block kills whatever of the tree still runs.
    """

    def __init__(self, launch: Launch, sandbox: Sandbox | None) -> None:
        self.limits: Limits = launch.limits
        self.stopped_by: StoppedBy | None = None
        self.started_s = time.monotonic()
        # Only a build writes outside its own sized tmpfs: to its source, on the host's disk.
        self._grows_in = launch.source if launch.writable_source else None
        self._disk_bytes = launch.limits.disk_bytes + (folder_bytes(launch.source) if self._grows_in else 0)
        self._scratch = Path(tempfile.mkdtemp(prefix="prgate-run-")) if sandbox is None else None
        self._process = self._start(launch, sandbox)
        self._over = threading.Event()
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._read_stdout, self._read_stderr, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def _start(self, launch: Launch, sandbox: Sandbox | None) -> subprocess.Popen[bytes]:
        if self._scratch is not None or sandbox is None:
            Path(f"{self._scratch}/home").mkdir()
            environment = sandbox_environment(launch, str(launch.source), home=f"{self._scratch}/home")
            return popen(launch.argv, environment, cwd=launch.source)
        uid = next_uid()
        if launch.writable_source and sandbox.as_root:
            give(launch.source, uid)
        with seccomp_pipe() as descriptor:
            command = command_line(sandbox, launch, uid, descriptor)
            # bubblewrap itself gets no environment: its first process would show it in /proc/1/environ.
            return popen(command, {}, descriptors=() if descriptor is None else (descriptor,))

    def __enter__(self) -> "SandboxedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.finish()

    @property
    def pid(self) -> int:
        """Return the process id, on the host, of the outermost process."""
        return self._process.pid

    def send(self, line: str) -> None:
        """Write one line to its standard input; ProcessEndedError when nobody reads it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ProcessEndedError(self.finish()) from None

    def read_line(self, timeout_s: float) -> bytes:
        """Return its next line; ProcessEndedError at its end, TimeoutError (and killed) when late."""
        try:
            line = self._lines.get(timeout=max(timeout_s, 0.001))
        except queue.Empty:
            self.kill(StoppedBy.TIME)
            raise TimeoutError(f"no answer within {timeout_s:.0f} s") from None
        if line is None:
            raise ProcessEndedError(self.finish())
        return line

    def finish(self) -> Finished:
        """Close its input, wait for its end (the watch enforces the time limit), and say how it ended."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=5)
        self._close()
        wall_s = time.monotonic() - self.started_s
        stderr = self._stderr.decode(errors="replace")
        return Finished(self._process.returncode, bytes(self._stdout), stderr, self.stopped_by, wall_s)

    def kill(self, why: StoppedBy = StoppedBy.CALLER) -> None:
        """End the whole tree now; without effect when it has ended."""
        if self._process.poll() is not None:
            return
        self.stopped_by = self.stopped_by or why
        # Behind bubblewrap the outermost process takes all others along; without it each one is ended.
        stragglers = list(tree(self._process.pid))[1:] if self._scratch is not None else []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for straggler in stragglers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(straggler, signal.SIGKILL)

    def _close(self) -> None:
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _read_stdout(self) -> None:
        pending = bytearray()
        for chunk in chunks(self._process.stdout):
            self._stdout += chunk
            if len(self._stdout) > self.limits.output_bytes:
                self.kill(StoppedBy.OUTPUT)
                break
            first, *others = chunk.split(b"\n")
            pending += first
            for part in others:
                self._lines.put(bytes(pending))
                pending = bytearray(part)
        self._lines.put(None)

    def _read_stderr(self) -> None:
        seen = 0
        for chunk in chunks(self._process.stderr):
            seen += len(chunk)
            self._stderr += chunk
            del self._stderr[:-STDERR_KEPT_BYTES]
            if seen > self.limits.output_bytes:
                self.kill(StoppedBy.OUTPUT)
                return

    def _watch(self) -> None:
        deadline_s = self.started_s + self.limits.wall_s
        disk_due_s = self.started_s
        while self._process.poll() is None:
            now_s = time.monotonic()
            if now_s > deadline_s:
                self.kill(StoppedBy.TIME)
            elif resident_bytes(self._process.pid) > self.limits.memory_bytes:
                self.kill(StoppedBy.MEMORY)
            elif self._grows_in is not None and now_s > disk_due_s:
                disk_due_s = now_s + DISK_INTERVAL_S
                if folder_bytes(self._grows_in) > self._disk_bytes:
                    self.kill(StoppedBy.DISK)
            self._over.wait(WATCH_INTERVAL_S)


def popen(
    command: Sequence[str],
    environment: dict[str, str],
    *,
    cwd: Path = Path("/"),
    descriptors: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own with pipes on all three streams."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=cwd,
        pass_fds=descriptors,
        start_new_session=True,
        umask=0o022,
    )


@contextlib.contextmanager
def seccomp_pipe() -> Iterator[int | None]:
    """Yield a descriptor that the filter can be read from; None where there is no filter for this machine."""
    program = seccomp_program()
    if program is None:
        yield None
        return
    reader, writer = os.pipe()
    try:
        os.write(writer, program)
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


def give(folder: Path, uid: int) -> None:
    """Make `uid` the owner of a whole folder, links themselves and not what they point to."""
    os.chown(folder, uid, uid, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, uid, uid, follow_symlinks=False)


def chunks(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Yield what a pipe brings, as it comes, until its end."""
    assert stream is not None
    while chunk := os.read(stream.fileno(), CHUNK_BYTES):
        yield chunk


def tree(pid: int) -> Iterator[int]:
    """Yield `pid` and every process below it; those that end meanwhile are left out."""
    pending = [pid]
    while pending:
        current = pending.pop()
        yield current
        pending += children_of(current)


def children_of(pid: int) -> list[int]:
    """Return the processes that `pid` started; a process or thread that ends meanwhile has none."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - read ten times a second
            with contextlib.suppress(OSError):
                found += [int(child) for child in read_proc(f"/proc/{pid}/task/{thread}/children").split()]
    return found


def read_proc(path: str) -> str:
    """Return a file of /proc; OSError (also of a process that ends while it is read)."""
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
        return file.read()


def resident_bytes(pid: int) -> int:
    """Return the memory of a process tree without mapped files; a shared page counts once a process."""
    total = 0
    for member in tree(pid):
        with contextlib.suppress(OSError):
            lines = read_proc(f"/proc/{member}/status").splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(COUNTED_MEMORY))
    return total


def folder_bytes(folder: Path) -> int:
    """Return the disk that the files below `folder` take; links count as themselves."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(Path(parent) / name).st_blocks * 512
    return total


def run(launch: Launch, sandbox: Sandbox | None) -> Finished:
    """Start one process, wait for its end, and return how it ended and what it printed."""
    with SandboxedProcess(launch, sandbox) as process:
        return process.finish()
