"""Review the difference of two unpacked releases, one package folder a diff, each with its tests.

    python tests/bot/review/release_diffs.py diffusers-0.41.0 diffusers-0.42.1

prints every folder with the size of its diff and its findings, to be judged by hand. Not a test.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import PurePosixPath

from bot.review import ReviewRequest, review

DEPTH = 4  # src / package / models / one model
SHARED_WORDS = {"src", "models", "pipelines", "modular_pipelines", "transformers", "diffusers", "utils"}


def patches(old: str, new: str, folder: str) -> dict[str, str]:
    """Return the patch of each changed file below `folder`, by its path in the release."""
    command = ["git", "diff", "--no-index", "--no-color", f"{old}/{folder}", f"{new}/{folder}"]
    text = subprocess.run(command, capture_output=True, check=False).stdout.decode("utf-8", "replace")
    found: dict[str, str] = {}
    for part in re.split(r"(?m)^(?=diff --git )", text):
        named = re.match(r"diff --git a/(\S+) b/(\S+)\n", part)
        if named:
            path = PurePosixPath(named[2])
            found["/".join(path.parts[1:])] = part
    return found


def diffs(old: str, new: str) -> dict[str, str]:
    """Return one diff for each changed folder of the package, with the tests that name it."""
    tests = patches(old, new, "tests")
    groups: dict[str, list[str]] = defaultdict(list)
    for path, part in patches(old, new, "src").items():
        groups["/".join(PurePosixPath(path).parts[:DEPTH])].append(part)
    return {key: "".join((*parts, *own_tests(key, tests))) for key, parts in sorted(groups.items())}


def own_tests(key: str, tests: dict[str, str]) -> list[str]:
    """Return the patches of the tests whose path has the folder's or file's name."""
    word = PurePosixPath(key).stem
    return [] if word in SHARED_WORDS else [part for path, part in sorted(tests.items()) if word in path]


def main(old: str, new: str) -> None:
    """Print each diff and what the review says about it."""
    for key, diff in diffs(old, new).items():
        added = len(re.findall(r"(?m)^\+(?!\+\+)", diff))
        found = review(ReviewRequest(title="Release", body="", diff=diff)).findings
        print(f"{new} {key} +{added} findings={len(found)}")
        for finding in found:
            print(f"    {finding.rule} {finding.path}:{finding.line} {finding.says}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
