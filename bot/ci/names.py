"""When two jobs are the same job, and when two paths are the same file."""

import re
from functools import lru_cache

SHARDS = (
    re.compile(r"(?<=[(,]) ?\d{1,3}, ?\d{1,3}, ?(?=[^)\n]{1,100}\))"),  # (default, 1, 3, linux.2xlarge)
    re.compile(
        r",? ?\b(?:shard|part|split|group|partition|chunk)[ _:#-]?\d{1,3}(?:(?:/| of )\d{1,3})?\b", re.I
    ),
    re.compile(r"_shard_\d{1,3}\b", re.I),
    re.compile(r"(?:^|(?<=\s))[\[(]?\d{1,3} ?(?:/|of) ?\d{1,3}[\])]?(?=\s|$)"),  # 2/4, [2/4]
    re.compile(r", ?\d{1,3}(?=\)$)"),  # (3.12, 4)
    re.compile(r" ?\(\d{1,3}\)$"),  # backend test (3)
    re.compile(r" ?%\s?N$"),
)
PLATFORM = re.compile(
    r"\b(?:amd|rocm\d{0,3}(?:\.\d{1,2}){0,2}|nvidia|cuda\d{0,3}(?:[._]\d{1,2}){0,2}|intel|xpu|npu|ascend|gpu|cpu"
    r"|linux|windows|macos|ubuntu|mi\d{3}|[hablt]\d{1,3}0{0,2}|gfx\d{3,4}|x86_64|arm64|aarch64|msvc)\b:?",
    re.I,
)
EMPTY_PARENTHESES = re.compile(r"\(\s{0,4},?\s{0,4}\)|\[\s{0,4}\]")
ROOTS = ("src/", "lib/", "python/")


@lru_cache(maxsize=16_384)
def family(name: str) -> str:
    """Return a job's name without its shard: the shards of one step are one family."""
    for pattern in SHARDS:
        name = pattern.sub("", name[:400])
    return " ".join(EMPTY_PARENTHESES.sub("", name).lower().split())


@lru_cache(maxsize=16_384)
def cousin(name: str) -> str:
    """Return a job's name without shard and platform: one step on several platforms are cousins."""
    plain = PLATFORM.sub(" ", family(name))
    return " ".join(re.sub(r"[^\w.+#/]+", " ", EMPTY_PARENTHESES.sub(" ", plain)).split())


def same_path(seen: str, changed: str) -> bool:
    """Say whether a path of a log is a file of the repository.

    Logs print absolute paths, installed copies, and paths relative to a folder inside the repository.
    """
    seen, changed = plain_path(seen), plain_path(changed)
    if not seen or not changed:
        return False
    if seen == changed or seen.endswith("/" + changed):
        return True
    if not seen.startswith("/") and "/" in seen and changed.endswith("/" + seen):
        return True
    root = next((root for root in ROOTS if changed.startswith(root)), None)
    return root is not None and "/" in changed[len(root) :] and seen.endswith("/" + changed[len(root) :])


def plain_path(path: str) -> str:
    """Return a path with forward slashes and without `./`."""
    return path.replace("\\", "/").removeprefix("./")


def is_test_path(path: str) -> bool:
    """Say whether a path is a test's or a test helper's."""
    lower = "/" + plain_path(path).lower()
    name = lower.rpartition("/")[2]
    return (
        "/tests/" in lower
        or "/test/" in lower
        or "/__tests__/" in lower
        or name.startswith(("test_", "conftest"))
        or re.search(r"(?:_test|\.test|\.spec|_spec|tests)\.\w{1,6}$", name) is not None
    )


ENVIRONMENT = re.compile(
    r"(?:^|/)(?:dockerfile[\w.-]*|containerfile[\w.-]*|docker/.*|\.docker/.*|docker-compose[\w.-]*|\.dockerignore"
    r"|requirements[\w./-]*\.(?:txt|in)|constraints[\w.-]*\.txt|[\w.-]*requirements\.txt|pyproject\.toml|setup\.(?:py|cfg)"
    r"|poetry\.lock|uv\.lock|pdm\.lock|pixi\.(?:lock|toml)|environment\.ya?ml|conda[\w.-]*\.ya?ml"
    r"|package\.json|package-lock\.json|pnpm-lock\.yaml|pnpm-workspace\.yaml|yarn\.lock|\.npmrc|\.nvmrc|turbo\.json"
    r"|cargo\.(?:toml|lock)|rust-toolchain[\w.]*|go\.(?:mod|sum)|go\.work|gemfile[\w.]*|build\.gradle[\w.]*|pom\.xml"
    r"|cmakelists\.txt|[\w.-]+\.cmake|makefile|meson\.build|build(?:\.bazel)?|workspace(?:\.bazel)?|[\w.-]+\.bzl"
    r"|\.bazelrc|\.gitmodules|conftest\.py|pytest\.ini|tox\.ini|noxfile\.py|jest\.config[\w.]*|vitest\.config[\w.]*"
    r"|tsconfig[\w.]*\.json|babel\.config[\w.]*|\.pre-commit-config\.yaml|\.gitattributes|jenkinsfile[\w.]*"
    r"|[\w.-]*pins?\.txt|.*commit_pins/.*|\.python-version|\.tool-versions|apt[\w.-]*\.txt|packages\.txt)$"
    r"|^(?:\.github/(?:workflows|actions|scripts)/|\.buildkite/|\.circleci/|\.gitlab-ci|\.ci/|ci/|buildkite/"
    r"|azure-pipelines|\.azure|tools/ci/|scripts/ci/|third_party/|vendor/)",
)
ENVIRONMENT_TITLE = re.compile(
    r"\b(?:bump|upgrade|downgrade|pin|unpin|update the pin|deps?|dependenc(?:y|ies)|lock ?file"
    r"|docker(?:file)?s?"
    r"|base image|toolchain|workflow|\[ci\]|ci[:/]|ci config\w*|build system|cmake|firmware|driver)\b"
    r"|\[ci(?:/\w+)?\]|\[build\]|\[deps\]",
    re.I,
)


def changes_environment(path: str) -> bool:
    """Say whether a file decides what is installed, built or run, rather than what the code does."""
    return bool(ENVIRONMENT.search(plain_path(path).lower()))
