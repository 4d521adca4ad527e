"""What a revision runs with: wheels of the base's lock, and a build inside the sandbox."""

import zipfile

import pytest

from perf_runner.checkout import import_repository
from perf_runner.environment import EnvironmentFailedError, install, parse_lock
from perf_runner.measure import measure_case
from perf_runner.models import Outcome
from perf_runner.sandbox import Launch, Limits
from perf_runner.sandbox_process import StoppedBy, run
from perf_runner.workspace import Request, Workspace

HASH = "a" * 64


def write_wheel(folder, version, body):
    """Write a wheel of the package `toydep` by hand."""
    folder.mkdir(exist_ok=True)
    info = f"toydep-{version}.dist-info"
    with zipfile.ZipFile(folder / f"toydep-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("toydep.py", body)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: toydep\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """The operator's package index: a folder with two versions of one package."""
    folder = tmp_path / "index"
    write_wheel(folder, "1.0", "FACTOR = 1.0\n")
    write_wheel(folder, "2.0", "FACTOR = 1.6\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def measure(toy, tmp_path, sandbox, quick, machine):
    def run_case(base, head, **request):
        repository = import_repository(toy.folder, tmp_path / f"git-{len(list(tmp_path.iterdir()))}")
        workspace = Workspace(repository, repository.folder, sandbox, cache=tmp_path / "cache")
        asked = Request((("base", base), ("head", head)), "session", quick, **request)
        return measure_case(workspace, asked, machine=machine)

    return run_case


def configured(toy, *lines):
    text = (toy.folder / ".github/prgate.toml").read_text()
    return text.replace("[perf]\n", "[perf]\n" + "".join(f"{line}\n" for line in lines), 1)


def test_a_lock_is_names_versions_hashes_and_markers():
    lock = parse_lock(
        "\ufeff# made by a tool\n"
        "numpy==2.4.6\n"
        "torch[opt-einsum]==2.13.0+cpu ; python_version >= '3.11'  # pinned\n"
        f"typer==0.29.2 \\\n    --hash=sha256:{HASH} \\\n    --hash=sha256:{HASH}\n\n",
        "lock.txt",
    )
    assert len(lock.requirements) == 3
    assert lock.requirements[2] == f"typer==0.29.2 --hash=sha256:{HASH} --hash=sha256:{HASH}"
    assert lock.key != parse_lock("numpy==2.4.7", "lock.txt").key


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy>=2",
        "--index-url https://evil.example/simple",
        "-r other.txt",
        "-e .",
        "evil @ https://evil.example/evil.whl",
        "https://evil.example/evil.whl",
        "git+https://evil.example/evil.git",
        "./local",
        "numpy==2.4.6 --find-links /tmp",
        "numpy==2.4.6; os.system('x')\t--pre",
        "numpy==2.4.6 --hash=md5:" + "a" * 32,
        "numpy==2.4.6 " + "--hash=sha256:" * 5000,
        "${HOME}==1",
    ],
)
def test_a_lock_names_no_address_file_or_option(line):
    with pytest.raises(EnvironmentFailedError, match=r"lock\.txt, line 2"):
        parse_lock(f"# first\n{line}\n", "lock.txt")


def test_an_environment_is_installed_once_and_kept(index, tmp_path):
    lock = parse_lock("toydep==1.0", "lock.txt")
    folder = install(lock, tmp_path / "cache")
    assert (folder / "toydep.py").read_text() == "FACTOR = 1.0\n"
    (index / "toydep-1.0-py3-none-any.whl").unlink()
    assert install(lock, tmp_path / "cache") == folder


def test_a_source_distribution_is_not_built(index, tmp_path):
    (index / "evil-1.0.tar.gz").write_bytes(b"")
    with pytest.raises(EnvironmentFailedError, match="from wheels"):
        install(parse_lock("evil==1.0", "lock.txt"), tmp_path / "cache")
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.is_dir()]


PRODUCT = "import time, toydep\n\ndef work():\n    time.sleep(0.02 * toydep.FACTOR)\n"


def test_a_changed_lock_takes_a_maintainers_word(toy, measure, index, tmp_path):
    files = {"toy.py": PRODUCT, "lock.txt": "toydep==1.0\n"}
    base = toy.commit(files | {".github/prgate.toml": configured(toy, 'lock = "lock.txt"')})
    head = toy.commit({"lock.txt": "toydep==2.0\n"})
    without = measure(base, head)
    assert not list(tmp_path.glob("git-*/run-*/arm-*"))  # the trees are gone with the result
    assert without.decision.decision is Outcome.NO_REGRESSION
    assert "head changes lock.txt: all arms ran with the base's dependencies." in without.notes
    allowed = measure(base, head, allow_changed_lock=True)
    assert allowed.decision.decision is Outcome.REGRESSION


BUILD = 'build = ["python", "build.py"]'
BUILDER = """\
import pathlib, socket
try:
    socket.create_connection(("127.0.0.1", 1), timeout=1)
except OSError as error:
    pathlib.Path("built.py").write_text(f"FACTOR = {FACTOR}")
"""


def test_a_revision_is_built_in_its_sandbox_before_it_is_measured(toy, measure):
    product = PRODUCT.replace("toydep", "built")
    config = {".github/prgate.toml": configured(toy, BUILD), "toy.py": product}
    base = toy.commit(config | {"build.py": BUILDER.replace("{FACTOR}", "1.0")})
    head = toy.commit({"build.py": BUILDER.replace("{FACTOR}", "1.6")})
    assert measure(base, head).decision.decision is Outcome.REGRESSION


def test_a_head_that_does_not_build_is_said(toy, measure):
    config = {".github/prgate.toml": configured(toy, BUILD)}
    base = toy.commit(config | {"build.py": "pass\n"})
    result = measure(base, toy.commit({"build.py": "raise SystemExit('no compiler for this')\n"}))
    assert result.decision is None
    assert result.error == "head: the revision does not build: it ended with code 1: no compiler for this"


def test_a_build_cannot_fill_the_disk(tmp_path, sandbox):
    source = tmp_path / "source"
    source.mkdir(mode=0o755)
    writer = "n = 0\nwhile True:\n    open(f'file{n}', 'wb').write(b'x' * 10**6); n += 1\n"
    (source / "build.py").write_text(writer)
    limits = Limits(disk_bytes=50 * 1024**2, wall_s=20)
    launch = Launch(("python", "build.py"), source, limits=limits, writable_source=True)
    assert run(launch, sandbox).stopped_by is StoppedBy.DISK
