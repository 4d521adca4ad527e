"""Untrusted code tries to get out of the sandbox, once started by root and once by an ordinary user.

Each attack prints `escaped` when it got what it must not get, and `held` when it was refused.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perf_runner.sandbox import find_bwrap, find_sandbox

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SECRET = "canary-4711-secret"

ATTACKS = {
    "environment": """
        import os
        print("escaped" if "canary" in repr(dict(os.environ)) or "PRGATE_LANE_KEY" in os.environ else "held")
    """,
    "environment of the first process": """
        import glob
        seen = b""
        for path in glob.glob("/proc/*/environ"):
            try:
                seen += open(path, "rb").read()
            except OSError:
                pass
        print("escaped" if b"canary" in seen else "held")
    """,
    "home and root's folder": """
        import os
        seen = []
        for path in ("/root", "/home", os.path.expanduser("~"), "/var", "/run", "/srv"):
            try:
                seen += [entry for entry in os.listdir(path) if entry != ".pyenv"]
            except OSError:
                pass
        print("escaped" if seen else "held", seen)
    """,
    "password files": """
        import os
        print("escaped" if os.path.exists("/etc/shadow") or os.path.exists("/etc/passwd") else "held")
    """,
    "proc of the parent": """
        import os, sys
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        print("escaped" if len(pids) > 4 or sys.argv[1] in pids else "held", pids)
    """,
    "signal to the parent": """
        import os, sys
        try:
            os.kill(int(sys.argv[1]), 9)
            print("escaped")
        except (ProcessLookupError, PermissionError) as error:
            print("held", error)
    """,
    "signal to everyone": """
        import os, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            os.kill(-1, signal.SIGTERM)
        except OSError:
            pass
        print("held")
    """,
    "network": """
        import socket
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=2)
            print("escaped")
        except OSError as error:
            print("held", error)
    """,
    "outside network": """
        import socket
        try:
            socket.create_connection(("1.1.1.1", 443), timeout=2)
            print("escaped")
        except OSError as error:
            print("held", error)
    """,
    "name lookup": """
        import socket
        try:
            print("escaped", socket.getaddrinfo("example.com", 443))
        except OSError as error:
            print("held", error)
    """,
    "abstract socket": """
        import socket
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect("\\0prgate-escape-test")
            print("escaped")
        except OSError as error:
            print("held", error)
    """,
    "write outside": """
        import os
        written = []
        for path in ("/usr/x", "/etc/x", "/src/x", "/x", "/dev/x", "/opt/x", "/proc/sys/kernel/x", "/sys/x"):
            try:
                open(path, "w").write("x")
                written.append(path)
            except OSError:
                pass
        print("escaped" if written else "held", written)
    """,
    "symlink out of the source": """
        print_held = True
        for path in ("link", "deep/link"):
            try:
                print("escaped", open(path).read())
            except OSError as error:
                print("held", error)
    """,
    "fork bomb": """
        import os, time
        made = 0
        try:
            while made < 500:
                if os.fork() == 0:
                    time.sleep(3)
                    os._exit(0)
                made += 1
            print("escaped", made)
        except OSError as error:
            print("held", made, error)
    """,
    "memory of one process": """
        import time
        try:
            block = bytearray(900 * 1024**2)
            time.sleep(2)
            print("escaped")
        except MemoryError:
            print("held")
    """,
    "memory of many processes": """
        import mmap, os, time
        for _ in range(10):
            if os.fork() == 0:
                shared = mmap.mmap(-1, 90 * 1024**2)
                for offset in range(0, len(shared), 4096):
                    shared[offset] = 1
                time.sleep(4)
                os._exit(0)
        time.sleep(4)
        print("escaped")
    """,
    "disk": """
        written = 0
        try:
            for number in range(100):
                with open(f"/tmp/file{number}", "wb") as file:
                    file.write(b"x" * 2**20)
                written += 1
            print("escaped")
        except OSError as error:
            print("held", written, error)
    """,
    "disk in shared memory": """
        written = 0
        try:
            for number in range(100):
                with open(f"/dev/shm/file{number}", "wb") as file:
                    file.write(b"x" * 2**20)
                written += 1
            print("escaped")
        except OSError as error:
            print("held", written, error)
    """,
    "output flood": """
        import sys
        while True:
            sys.stdout.write("x" * 100_000)
    """,
    "error flood": """
        import sys
        while True:
            sys.stderr.write("x" * 100_000)
    """,
    "sleeping for ever": """
        import time
        time.sleep(600)
        print("escaped")
    """,
    "a user namespace of its own": """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        print("escaped" if libc.unshare(0x10000000) == 0 else "held", os.strerror(ctypes.get_errno()))
    """,
    "mounting": """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        made = libc.mount(b"none", b"/tmp", b"tmpfs", 0, b"size=10g")
        print("escaped" if made == 0 else "held", os.strerror(ctypes.get_errno()))
    """,
    "becoming root": """
        import os
        try:
            os.setuid(0)
            print("escaped" if os.getuid() == 0 and os.stat("/usr").st_uid == 0 else "held")
        except OSError as error:
            print("held", error)
        capabilities = [line for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd"))]
        print("escaped" if any(int(line.split()[1], 16) for line in capabilities) else "held", capabilities)
    """,
    "making a device": """
        import os, stat
        try:
            os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
            print("escaped")
        except OSError as error:
            print("held", error)
    """,
    "outliving the sandbox": """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(120)
            os._exit(0)
        print("held")
    """,
}
STOPPED = {
    "output flood": "the output limit",
    "error flood": "the output limit",
    "sleeping for ever": "the time limit",
    "memory of many processes": "the memory limit",
}


@pytest.fixture(scope="module")
def listener() -> Iterator[int]:
    """A server on this host's loopback and one on an abstract socket, which the attacks try to reach."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0prgate-escape-test")
        abstract.listen()
        yield server.getsockname()[1]


@pytest.fixture(params=["as root", "as a user"])
def starter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that starts the driver in each of the two ways that this host can offer."""
    driver = str(Path(__file__).with_name("escape_driver.py"))
    if os.geteuid() != 0:
        if request.param == "as root":
            pytest.skip("this test run is not root's")
        return [sys.executable, driver]
    if request.param == "as root":
        return [sys.executable, driver]
    return [*user_command(), driver]


def user_command() -> list[str]:
    """Return the start of a Python as `nobody`, with a Python that this user can read."""
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    for python in ("/usr/bin/python3", sys.executable):
        check = [*drop, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if subprocess.run(check, capture_output=True, check=False, cwd="/").returncode == 0:
            return [*drop, python]
    pytest.skip("no Python 3.11 that an ordinary user can read")


def write_source(code: str, folder: Path) -> Path:
    """Write the folder of one attack, with links to a secret outside of it."""
    source = folder / "source"
    (source / "deep").mkdir(parents=True)
    (source / "attack.py").write_text(textwrap.dedent(code))
    secret = folder / "secret.txt"
    secret.write_text(f"escaped {SECRET}")
    (source / "link").symlink_to(secret)
    (source / "deep" / "link").symlink_to("/etc/shadow")
    return source


def attack(starter: list[str], code: str, folder: Path) -> dict[str, Any]:
    """Run one attack with a canary secret all around it and return how it ended."""
    for parent in (folder, *folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    source, packages = write_source(code, folder), folder / "packages"
    (packages / "perf_runner").mkdir(parents=True)
    for name in ("__init__", "sandbox", "sandbox_process", "seccomp"):
        shutil.copy(ROOT / "perf_runner" / f"{name}.py", packages / "perf_runner")
    environment = {
        "PATH": f"{find_bwrap().parent}:/usr/bin:/bin",  # type: ignore[union-attr]
        "PYTHONPATH": str(packages),
        "PRGATE_LANE_KEY": SECRET,
        "HOME": str(folder),
    }
    command = [*starter, str(source), str(os.getpid())]
    finished = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60, cwd="/"
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_held(name: str, starter: list[str], listener: int, tmp_path: Path) -> None:
    ended = attack(starter, ATTACKS[name].replace("PORT", str(listener)), tmp_path)
    assert "escaped" not in ended["stdout"], ended
    assert SECRET not in ended["stdout"] + ended["stderr"]
    if name in STOPPED:
        assert ended["stopped_by"] == STOPPED[name], ended
    else:
        assert "held" in ended["stdout"], ended
    assert ended["wall_s"] < 12
    assert ended["output_bytes"] < 4 * 1024**2


@pytest.mark.parametrize(
    "name", ["environment", "proc of the parent", "network", "abstract socket", "symlink out of the source"]
)
def test_the_same_attack_succeeds_without_the_sandbox(name: str, listener: int, tmp_path: Path) -> None:
    """What the tests above call held is not held by accident."""
    source = write_source(ATTACKS[name].replace("PORT", str(listener)), tmp_path)
    command = [sys.executable, "attack.py", str(os.getpid())]
    environment = {"PRGATE_LANE_KEY": SECRET, "PATH": os.environ["PATH"]}
    finished = subprocess.run(
        command, env=environment, cwd=source, capture_output=True, text=True, timeout=30, check=False
    )
    assert "escaped" in finished.stdout


def test_nothing_of_an_attack_outlives_it(starter: list[str], tmp_path: Path) -> None:
    duration = f"{97 + os.getpid() / 1e7:.7f}"
    code = f"""
        import subprocess
        subprocess.Popen(["sleep", "{duration}"], start_new_session=True)
        print("held")
    """
    assert "held" in attack(starter, code, tmp_path)["stdout"]
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(duration.encode() in line for line in running)


def test_the_sandbox_of_this_host_is_found() -> None:
    assert find_sandbox().as_root == (os.geteuid() == 0)
