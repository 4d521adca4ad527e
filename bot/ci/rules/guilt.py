"""What points at the change itself. Any of it forbids `unrelated` without the same failure on the base."""

import re
from collections.abc import Callable, Iterable, Sequence

from bot.ci.evidence import Evidence, quote
from bot.ci.failures import DETERMINISTIC, Failure
from bot.ci.names import is_test_path, plain_path, same_path
from bot.ci.nature import nature_of
from bot.ci.rules.text import changed_words, fixed_issues, message_words, own_words
from bot.ci.scene import Case, Scene
from bot.ci.snapshot import SnapshotFile

HUNK = re.compile(r"^@@ -\d{1,8}(?:,\d{1,8})? \+(\d{1,8})(?:,(\d{1,8}))? @@", re.M)
RATCHET = re.compile(
    r"baseline|ratchet|golden|snapshot|allow_?list|deny_?list|public_api|api_surface|registered|completeness"
    r"|licen[cs]e|changelog|schema|architect|layering|forbidden|coverage|docs?_|documented",
    re.I,
)
GENERIC_NAMES = {
    "__init__.py",
    "utils.py",
    "main.py",
    "index.ts",
    "index.js",
    "mod.rs",
    "lib.rs",
    "README.md",
    "setup.py",
}
FRAMEWORK = ("site-packages", "dist-packages", "importlib", "_pytest", "node_modules", "/rustc/", "pluggy")


def guilt_of(case: Case, scene: Scene, rules: Sequence["GuiltRule"] | None = None) -> tuple[Evidence, ...]:
    """Return all that points at the change."""
    found = (rule(case, scene) for rule in (RULES if rules is None else rules))
    return tuple(evidence for evidence in found if evidence)


def error_in_changed_file(case: Case, scene: Scene) -> Evidence | None:
    """A compile, lint or collection error lies in a changed file."""
    failure = case.failure
    if failure.category not in DETERMINISTIC or not failure.file:
        return None
    file = changed(failure.file, scene)
    if file is None:
        return None
    definite = file.status == "added" or in_hunk(file, failure.line)
    how = changed_how(file)
    says = f"The error lies in `{file.path}`, which this pull request {how}: {quote(failure.message)}."
    return Evidence("error_in_changed_file", "strong", says, definite=definite)


def message_names_changed_file(case: Case, scene: Scene) -> Evidence | None:
    """The error's own words name a file that the change adds, moves or touches."""
    text = plain_path(f"{case.failure.message} {case.failure.detail}")
    for file in scene.files:
        for path in filter(None, (file.path, file.previous_path)):
            if names_path(text, path) or names_module(case.failure, file, path):
                definite = file.status == "added" and path == file.path
                says = (
                    f"The message names `{path}`, which this pull request {changed_how(file)}: {quote(text)}."
                )
                return Evidence("message_names_changed_file", "strong", says, definite=definite)
    return None


def names_path(text: str, path: str) -> bool:
    """Say whether a text names a path, or a file name that is not everybody's."""
    path = plain_path(path)
    if "/" in path and path in text:
        return True
    name = path.rpartition("/")[2]
    if len(name) < 8 or name in GENERIC_NAMES or "." not in name or name not in text:
        return False
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def names_module(failure: Failure, file: SnapshotFile, path: str) -> bool:
    """Say whether an import error misses a module that the change moved or removed."""
    if file.status not in ("removed", "renamed") or not path.endswith(".py"):
        return False
    dotted = plain_path(path)[:-3].removesuffix("/__init__").replace("/", ".")
    tail = ".".join(dotted.split(".")[-2:])
    return f"'{dotted}'" in failure.message or (tail.count(".") == 1 and f"{tail}'" in failure.message)


def traceback_through_changed_file(case: Case, scene: Scene) -> Evidence | None:
    """The traceback goes through a changed file."""
    if case.failure.category in ("compile", "lint"):
        return None
    for path in reversed(case.failure.paths):
        file = changed(path, scene)
        if file is None or (path == case.failure.file and is_test_path(path)):
            continue
        definite = file.status == "added" and nature_of(case.failure) in ("plain", "dependency")
        says = f"The traceback goes through `{file.path}`, which this pull request {changed_how(file)}."
        return Evidence("traceback_through_changed_file", "medium", says, definite=definite)
    return None


def failing_test_changed(case: Case, scene: Scene) -> Evidence | None:
    """The failing test's own file is changed, or new."""
    file = changed(case.failure.file or "", scene)
    if file is None or case.failure.category in ("compile", "lint"):
        return None
    definite = file.status == "added" and nature_of(case.failure) in ("plain", "dependency")
    says = f"The failing test is in `{file.path}`, which this pull request {changed_how(file)}."
    return Evidence("failing_test_changed", "medium", says, definite=definite)


def build_inputs_changed(case: Case, scene: Scene) -> Evidence | None:
    """What is installed or built changed, and the failure is one of building, importing or starting."""
    if not scene.environment_files:
        return None
    failure = case.failure
    starts = failure.category in DETERMINISTIC or nature_of(failure) == "dependency"
    nothing = failure.signature is None or not case.reading.ran
    if not starts and not nothing:
        return None
    path = nearest(scene.environment_files, case)
    says = f"This pull request changes `{path}`, which decides what is built, installed or run."
    return Evidence("build_inputs_changed", "medium", says)


def nearest(paths: Sequence[str], case: Case) -> str:
    """Return the file whose name the job or its log speaks of, else the first."""
    spoken = f"{case.job.name} {' '.join(case.failure.paths)} {case.failure.message}".lower()
    return next((path for path in paths if path.rpartition("/")[2].lower() in spoken), paths[0])


def message_names_changed_code(case: Case, scene: Scene) -> Evidence | None:
    """The error speaks of an identifier that the change introduces, removes or announces."""
    words = message_words(f"{case.failure.message} {case.failure.detail}")
    if not words:
        return None
    for file in scene.files:
        shared = words & changed_words(file.patch) if file.patch else frozenset()
        if shared:
            word = min(shared)
            says = f"The message speaks of `{word}`, which this pull request changes in `{file.path}`."
            return Evidence("message_names_changed_code", "medium", says)
    shared = words & own_words(scene.snapshot.pr.title, scene.snapshot.pr.body)
    if shared:
        says = f"The message speaks of `{min(shared)}`, which this pull request's description announces."
        return Evidence("message_names_changed_code", "medium", says)
    return None


def ratchet_with_new_files(case: Case, scene: Scene) -> Evidence | None:
    """A test that keeps a list of files, names or documents complete fails while files come or go."""
    failure = case.failure
    if not RATCHET.search(f"{failure.test or ''} {case.job.name}"[:600]):
        return None
    moved = [file for file in scene.files if file.status in ("added", "removed", "renamed")]
    if not moved:
        return None
    says = f"`{failure.test or case.job.name}` checks what exists, and this pull request {changed_how(moved[0])} `{moved[0].path}`."  # noqa: E501
    return Evidence("ratchet_with_new_files", "weak", says)


def test_files_moved(case: Case, scene: Scene) -> Evidence | None:
    """Tests were moved or removed: order and shards change, and other tests may fail by it."""
    if not case.failure.test:
        return None
    for file in scene.files:
        if file.status in ("renamed", "removed") and is_test_path(file.path):
            says = (
                f"This pull request {changed_how(file)} the test file `{file.path}`, so order and "
                "shards change."
            )
            return Evidence("test_files_moved", "weak", says)
    return None


def documents_read_by_tests(case: Case, scene: Scene) -> Evidence | None:
    """Only documents changed, and the failing test or job checks documents."""
    place = f"{case.failure.test or ''} {case.job.name}".lower()
    if not re.search(
        r"\bdocs?\b|readme|markdown|documentation|link ?check|spell", place[:600].replace("_", " ")
    ):
        return None
    for file in scene.files:
        if file.path.lower().endswith((".md", ".mdx", ".rst", ".txt", ".adoc")):
            says = f"`{case.failure.test or case.job.name}` checks documents, and `{file.path}` is one."
            return Evidence("documents_checked", "medium", says)
    return None


def claims_to_fix_it(case: Case, scene: Scene) -> Evidence | None:
    """The pull request says it fixes the very issue that tracks this failure."""
    numbers = fixed_issues(scene.snapshot.pr.title, scene.snapshot.pr.body)
    for issue in scene.snapshot.known_issues:
        name = (case.failure.test or "").rpartition("::")[2].partition("[")[0]
        if issue.number in numbers and name and name in f"{issue.title} {issue.body[:20_000]}":
            says = (
                f"This pull request says it fixes #{issue.number}, which tracks this failure; it still fails."
            )
            return Evidence("claims_to_fix_it", "medium", says, issue.url)
    return None


def changed(path: str, scene: Scene) -> SnapshotFile | None:
    """Return the changed file that a printed path is, or None."""
    if not path or (any(part in path for part in FRAMEWORK) and not installed_copy(path, scene)):
        return None
    for file in scene.files_by_name.get(plain_path(path).rpartition("/")[2], ()):
        if same_path(path, file.path) or (file.previous_path and same_path(path, file.previous_path)):
            return file
    return None


def installed_copy(path: str, scene: Scene) -> bool:
    """Say whether a path is an installed copy of a changed file: two parts of the path have to agree."""
    named = scene.files_by_name.get(plain_path(path).rpartition("/")[2], ())
    return any(file.path.count("/") >= 1 and path.endswith("/" + file.path) for file in named)


def changed_how(file: SnapshotFile) -> str:
    """Return what the pull request does to a file."""
    return {"added": "adds", "removed": "removes", "renamed": "moves"}.get(file.status, "changes")


def in_hunk(file: SnapshotFile, line: int | None) -> bool:
    """Say whether a line lies in one of the patch's hunks."""
    if line is None or not file.patch:
        return False
    return any(start <= line < start + length for start, length in hunks(file.patch))


def hunks(patch: str) -> Iterable[tuple[int, int]]:
    """Return start and length of a patch's hunks, on the new side."""
    for found in HUNK.finditer(patch[:500_000]):
        yield int(found.group(1)), int(found.group(2) or 1)


GuiltRule = Callable[[Case, Scene], Evidence | None]
RULES: tuple[GuiltRule, ...] = (
    error_in_changed_file,
    message_names_changed_file,
    traceback_through_changed_file,
    failing_test_changed,
    build_inputs_changed,
    message_names_changed_code,
    ratchet_with_new_files,
    test_files_moved,
    documents_read_by_tests,
    claims_to_fix_it,
)
