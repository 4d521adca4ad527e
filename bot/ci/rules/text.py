"""What the pull request's own words say; they may accuse, they never excuse."""

import re
from functools import lru_cache
from itertools import pairwise

RELAND = re.compile(
    r"\bre-?land(?:s|ed|ing)?\b|\bre-?appl(?:y|ies|ied)\b|\bre-?submit(?:s|ted)?\b|\bre-?introduc(?:e|es|ed)\b"
    r"|\brevert(?:s)? \"?revert|\brevert of (?:the )?revert|\bsecond attempt\b|\battempt (?:2|two)\b"
    r"|\btry again\b|was reverted\b|after (?:the|its|a) revert",
    re.I,
)
CLAIM = re.compile(
    r"\b(?:un-?related|not related|not caused by|pre-?existing|already (?:broken|failing)|flak(?:y|es?|iness)"
    r"|fails? on (?:main|master|trunk)|failing on (?:main|master|trunk)|known (?:failure|issue)"
    r"|infra(?:structure)? (?:issue|failure))",
    re.I,
)
FIXES = re.compile(
    r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b:?\s{1,4}(?:[\w.-]{1,60}/[\w.-]{1,60})?#(\d{1,9})\b", re.I
)
FIXES_URL = re.compile(
    r"\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b:?\s{1,4}https?://\S{1,200}/issues/(\d{1,9})\b", re.I
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
IDENTIFIER = re.compile(r"[A-Za-z_]\w{3,120}")
BODY_LIMIT = 60_000


def is_reland(title: str, body: str) -> bool:
    """Say whether a pull request brings back what was on the base branch before."""
    return bool(RELAND.search(title[:1_000]) or RELAND.search(body[:BODY_LIMIT]))


def claims_innocence(body: str) -> str | None:
    """Return the sentence in which the author says that a failure is not theirs, or None."""
    for sentence in SENTENCE.split(body[:BODY_LIMIT]):
        if CLAIM.search(sentence[:2_000]):
            return " ".join(sentence.split())[:300]
    return None


@lru_cache(maxsize=16_384)
def fixed_issues(title: str, body: str) -> frozenset[int]:
    """Return the issues that a pull request says it fixes."""
    text = f"{title[:1_000]}\n{body[:BODY_LIMIT]}"
    return frozenset(int(number) for number in FIXES.findall(text) + FIXES_URL.findall(text))


@lru_cache(maxsize=16_384)
def own_words(title: str, body: str) -> frozenset[str]:
    """Return the identifiers that a pull request speaks of, but for sentences that claim innocence."""
    sentences = [title[:1_000], *SENTENCE.split(body[:BODY_LIMIT])]
    kept = [sentence for sentence in sentences if not CLAIM.search(sentence[:2_000])]
    return frozenset(
        word for sentence in kept for word in IDENTIFIER.findall(sentence) if is_identifier(word)
    )


@lru_cache(maxsize=16_384)
def changed_words(patch: str) -> frozenset[str]:
    """Return the identifiers on the added and removed lines of a patch."""
    lines = [
        line[1:]
        for line in patch[:200_000].split("\n")
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    return frozenset(
        word for line in lines for word in IDENTIFIER.findall(line[:2_000]) if is_identifier(word)
    )


def is_identifier(word: str) -> bool:
    """Say whether a word is code, not English: it has an underscore inside or a capital inside."""
    if word.startswith("__") or word.lower().startswith("test_"):
        return False
    inner = word.strip("_")
    return "_" in inner or any(a.islower() and b.isupper() for a, b in pairwise(inner))


def message_words(message: str) -> frozenset[str]:
    """Return the identifiers that an error message speaks of, but for those that any message may hold."""
    return frozenset(word for word in IDENTIFIER.findall(message[:2_000]) if is_identifier(word)) - COMMON


COMMON = frozenset(
    [
        "AssertionError",
        "AttributeError",
        "ImportError",
        "KeyError",
        "ModuleNotFoundError",
        "NameError",
        "NoneType",
        "RuntimeError",
        "SimpleNamespace",
        "TypeError",
        "ValueError",
        "IndexError",
        "OSError",
        "FileNotFoundError",
        "TimeoutError",
        "ConnectionError",
        "NotImplementedError",
        "FakeTensor",
        "TensorVariable",
        "exit_code",
        "http_code",
        "call_function",
        "site_packages",
        "dist_packages",
        "MagicMock",
        "ConnectionRefusedError",
        "IntegrityError",
        "EngineCore",
        "FAILED_TO_START",
        "OutOfMemoryError",
        "CalledProcessError",
        "InductorError",
    ]
)
