"""Speed of CODEOWNERS parsing and matching beside the PyPI package `codeowners`, in one run.

Run it with `python tests/routing/bench_codeowners.py [--quick]`. Rules: 60 % `/dir/`, 15 % files, 10 %
`/dir/**/*.x`, 5 % each `*.x`, `name/` and `/dir/*`; 3,000 files, half of them under a rule's folder. The
worst case has files that only rule 1 (`*`) covers. Medians of processor time; the caches
of compiled expressions and segments are emptied before each parse.
"""

import argparse
import random
import re
import statistics
import time
from collections.abc import Callable

import codeowners

from routing.codeowners import Codeowners, parse
from routing.patterns import compile_segment

FILES = 3_000


def word(rng: random.Random) -> str:
    """Return a made-up name."""
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))


def folder(rng: random.Random, names: list[str]) -> str:
    """Return a folder two to four levels deep."""
    return "/".join(rng.choice(names) for _ in range(rng.randint(2, 4)))


def make_rules(count: int, rng: random.Random) -> tuple[str, list[str]]:
    """Return a file of `count` rules after a `*`, and the folders its rules name."""
    names = [word(rng) for _ in range(max(40, count // 20))]
    teams = [f"@org/{word(rng)}" for _ in range(30)] + [f"@{word(rng)}" for _ in range(60)]
    lines, folders = ["* @everyone"], []
    kinds = (
        ["/{d}/"] * 60
        + ["/{d}/{n}.py"] * 15
        + ["/{d}/**/*.{e}"] * 10
        + ["*.{e}"] * 5
        + ["{n}/"] * 5
        + ["/{d}/*"] * 5
    )
    for _ in range(count - 1):
        at = folder(rng, names)
        folders.append(at)
        pattern = rng.choice(kinds).format(d=at, n=word(rng), e=word(rng)[:4])
        lines.append(f"{pattern} {' '.join(rng.sample(teams, rng.randint(1, 2)))}")
    return "\n".join(lines) + "\n", folders


def make_paths(folders: list[str], rng: random.Random) -> list[str]:
    """Return the paths of files, half of them below a folder that a rule names."""
    other = [word(rng) for _ in range(60)]
    below = [f"{rng.choice(folders)}/{rng.choice(other)}" for _ in range(FILES // 10)]
    beside = [folder(rng, other) for _ in range(FILES // 10)]
    return [
        f"{rng.choice(below + beside)}/{word(rng)}.{rng.choice(['py', 'md', 'cpp'])}" for _ in range(FILES)
    ]


def median_s(run: Callable[[], object], times: int) -> float:
    """Return the median processor time of `times` runs in seconds (other programs do not count)."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def parse_theirs(text: str) -> codeowners.CodeOwners:
    """Return the other package's parsed file, its expressions compiled anew."""
    re.purge()
    return codeowners.CodeOwners(text)


def parse_ours(text: str) -> Codeowners:
    """Return our parsed file, its segments compiled anew."""
    compile_segment.cache_clear()
    return parse(text)


def match_ours(text: str, paths: list[str], times: int) -> float:
    """Return seconds for all paths; each repetition has a freshly parsed file, so no folder is known yet."""
    fresh: list[Codeowners] = [parse(text) for _ in range(times)]
    return median_s(lambda: [fresh[-1].match(path) for path in paths] and fresh.pop(), times)


def compare(count: int, worst: bool, times: int) -> str:
    """Return one row of the table."""
    rng = random.Random(count)
    text, folders = make_rules(count, rng)
    unowned = [f"{word(rng)}{at}" for at in folders] if worst else folders
    paths = [f"zz/{path}q" for path in make_paths(unowned, rng)] if worst else make_paths(folders, rng)
    theirs, ours = parse_theirs(text), parse(text)
    agree = sum([owner for _, owner in theirs.of(path)] == list(ours.match(path).owners) for path in paths)
    parse_them, parse_us = (
        median_s(lambda: parse_theirs(text), times),
        median_s(lambda: parse_ours(text), times),
    )
    them = median_s(lambda: [theirs.of(path) for path in paths], times) / len(paths) * 1e6
    us = match_ours(text, paths, times) / len(paths) * 1e6
    label = f"{count:,}{' worst' if worst else ''}"
    return (
        f"| {label} | {parse_them * 1e3:.2f} | {parse_us * 1e3:.2f} | {parse_them / parse_us:.1f} "
        f"| {them:.1f} | {us:.2f} | {them / us:.0f} | {agree}/{len(paths)} |"
    )


def stars_ms(times: int = 21) -> float:
    """Return milliseconds for 20 stars in one pattern against a name of 250 characters that does not fit."""
    parsed = parse("*" + "a*" * 19 + "b @x\n")
    name = "a" * 250
    return median_s(lambda: parsed.match(name), times) * 1e3


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--quick", action="store_true", help="one repetition, without the slow worst case")
    quick = arguments.parse_args().quick
    print(
        "| rules | parse ms: codeowners | ours | times | us a file: codeowners | ours | times | same answer |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for count, worst in [(100, False), (1_000, False), (10_000, False), *([] if quick else [(10_000, True)])]:
        print(compare(count, worst, 1 if quick else 5), flush=True)
    print(f"20 stars against 250 characters: {stars_ms():.3f} ms")


if __name__ == "__main__":
    main()
