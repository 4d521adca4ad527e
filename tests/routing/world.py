"""A small repository's ownership that the tests of routing share, and pull requests against it."""

from typing import Any

from routing.models import ChangedFile, PullRequest
from routing.ownership import Ownership


def page(owners: str, primary: str, **fields: str) -> str:
    """Return a module page; every value is YAML."""
    lines = [f"owners: [{owners}]", f"primary_code_paths: [{primary}]"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", "# Page", ""])


PAGES = {
    "docs/design/module/models.md": page(
        '"@ann", "@bob", "@cleo", "@dan"',
        '"lib/models/**", "lib/shared/**"',
        title="Model Integration",
        related_code_paths='["lib/layers/**"]',
        validation_paths='["tests/models/**", "tests/layers/**"]',
    ),
    "docs/design/module/offload_engine.md": page(
        '"@olga", "@pete"',
        '"lib/offload/**"',
        title="Weight Offloading",
        related_code_paths='["lib/models/**"]',
        validation_paths='["tests/offload/**"]',
        depends_on="[models.md, gone.md]",
    ),
    "docs/design/module/runtime.md": page(
        '"@rosa", "@sam"',
        '"lib/runtime/**"',
        required_reviewers='["@rita", "@ron"]',
        document_stewards='["@stella"]',
        primary_path_exceptions='[{path: "lib/runtime/errors.py", owner: errors.md},'
        ' {path: "lib/runtime/lost/**", owner: nowhere.md}]',
    ),
    "docs/design/module/errors.md": page('"@erik"', '"lib/errors/**"'),
    "docs/design/module/scheduler.md": page('"@sue", "@ann"', '"lib/sched/**", "lib/runtime/batch/**"'),
    "docs/design/module/batching.md": page('"@bea"', '"lib/sched/**"'),
    "docs/design/module/lib/index.md": page('"@uma", "@umberto"', '"lib/**"', kind="umbrella"),
    "docs/design/module/archive/old.md": "# An old page without front matter\n",
}

CODEOWNERS = """\
* @star
/ci/ @ci-lead @ann
/tests/ @tester
/lib/ @lib-all
/lib/models/ @ann @bob
/lib/offload/ @olga @pete
*.proto @wire
/docs/generated/
"""


def ownership(codeowners: str | None = CODEOWNERS, **pages: str) -> Ownership:
    """Return the ownership; pages given by file name replace or add."""
    named = {f"docs/design/module/{name}.md": text for name, text in pages.items()}
    return Ownership.from_texts(codeowners, {**PAGES, **named}, ".github/CODEOWNERS")


def pull(*paths: str | tuple[str, int], **fields: Any) -> PullRequest:
    """Return a pull request of files with 10 changed lines each, or of (path, lines)."""
    named = [(path, 10) if isinstance(path, str) else path for path in paths]
    files = tuple(ChangedFile(path=path, additions=lines) for path, lines in named)
    return PullRequest(**{"number": 7, "author": "author", "changed_files": files, **fields})
