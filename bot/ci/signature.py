"""What makes two failures the same: exception class and message, once the accidental parts are masked.

Numbers, addresses, paths, times, ids and shards differ from run to run; they are masked for the comparison,
but numbers still have to agree where they carry meaning (an assertion, a size, a status code).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Likeness = Literal["same", "shape", "different"]

TRUNCATED_MIN = 40
RELATIVE_TOLERANCE = 0.2
SMALL_INTEGER = 1000

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{1,32}\b")
HASH = re.compile(r"\b(?=[0-9a-f]{0,64}\d)(?=[0-9a-f]{0,64}[a-f])[0-9a-f]{7,64}\b")
TEMPORARY = re.compile(r"(?:/private)?(?:/var)?/tmp/[^\s'\"),;:]{1,400}")
ABSOLUTE = re.compile(r"(?<![\w./])(?:[A-Za-z]:)?(?:[\\/][\w.+@~ -]{1,100}){2,40}")
VOLATILE = re.compile(
    r"\b(pid|port|tid|line|seed|worker|gw|attempt|shard|rank|job|thread)([ =:#'\"(-]{0,3})\d{1,12}\b"
)
HOST_PORT = re.compile(r"\b((?:\d{1,3}\.){3}\d{1,3}|localhost):\d{2,5}\b")
NUMBER = re.compile(r"(?<![A-Za-z_\d.])[+-]?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?")
QUOTED = re.compile(r"'[^'\n]{0,2000}'|\"[^\"\n]{0,2000}\"|`[^`\n]{0,2000}`")
OPEN_QUOTE = re.compile(r"['\"][^'\"\n]{0,2000}$")
UNIT = re.compile(r"^ ?(?:ms|s|sec|seconds?|minutes?|%|[KMGT]i?B|bytes?|tokens?|items?)\b")

WRAPPERS = re.compile(
    r"engine core initialization failed|see root cause above|stage \S{1,20} replica \S{1,20} exited with code"
    r"|server exited unexpectedly|server failed to start|orchestrator initialization failed"
    r"|subprocess\.calledprocesserror|returned non-zero exit status|worker proc\S{0,20} initialization failed"
    r"|process \S{1,60} (?:terminated|exited) with|child process \S{0,60} ?(?:died|exited)"
    r"|enginedeaderror|enginecore encountered an issue|executor failed|see (?:stack )?trace above"
    r"|^raise [a-z]{0,40}error\(",
    re.IGNORECASE,
)
GENERIC = re.compile(
    r"process completed with exit code|the command exited with status|command failed with exit code"
    r"|the operation was cancell?ed|user command error|exit(?:ed with)?(?: code| status):? ?-?N$"
    r"|^(?:g?make|ninja)(?:\[N\])?:|build stopped|subcommand failed|failed to solve$|^failed to build"
    r"|could not compile|aborting due to|build completed unsuccessfully|^build failed|^tests? failed"
    r"|returned non-zero|^error:? ?$|lint for|^there were failures|^some (?:checks|tests) failed"
    r"|test timed out in|did not complete successfully: exit code: N$|errors while running ctest"
    r"|^(?:the )?(?:job|step|run|task) failed|^exit status N$|elifecycle|^code N$",
    re.IGNORECASE,
)
BARE_ASSERTION = re.compile(
    r"^(?:assert )?(?:N|true|false|none|null|nan|\[\]|\{\}|'')"
    r"(?: (?:==|!=|<=|>=|<|>|is|is not|in|not in) (?:N|true|false|none|null|nan|\[\]|\{\}|''))?$"
    r"|^scalars are not equal!?$|^tensor-likes are not (?:close|equal)!?$"
    r"|^expected (?:true|false|N|undefined|null) to (?:be|equal|deeply equal|strictly equal) (?:true"
    r"|false|N|undefined|null)$"
    r"|^expect\(received\)\.\w{1,40}\(expected\).{0,60}$|^assertion failed!?$"
    r"|^assertion `?left (?:==|!=) right`? failed$",
    re.IGNORECASE,
)
EMPTY_CLASSES = {
    "", "assertionerror", "error", "exception", "runtimeerror", "systemexit", "failed", "failure", "panic",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signature:
    """How a failure is recognised: its exception class (as printed) and the first line of its message."""

    exception: str | None
    message: str

    @property
    def short_class(self) -> str:
        """Return the class without its module."""
        return short_class(self.exception)

    @property
    def is_wrapper(self) -> bool:
        """Say whether this only wraps a cause that stands elsewhere in the log."""
        return bool(WRAPPERS.search(f"{self.exception or ''}: {self.message}"[:2000]))

    @property
    def is_generic(self) -> bool:
        """Say whether any failure might look like this, so that meeting it again means nothing."""
        return self.is_wrapper or is_generic(self.exception, self.message)


def short_class(exception: str | None) -> str:
    """Return an exception's class without its module."""
    return (exception or "").rpartition(".")[2]


def is_generic(exception: str | None, message: str) -> bool:
    """Say whether class and message name no cause."""
    normal = normalise(message)
    if not normal:
        return short_class(exception).lower() in EMPTY_CLASSES
    return bool(GENERIC.search(normal[:2000]) or BARE_ASSERTION.match(normal[:200]))


@lru_cache(maxsize=16_384)
def normalise(message: str) -> str:
    """Return a message with its accidental parts masked."""
    text = TIME.sub("<time>", message[:2000])
    text = UUID.sub("<id>", text)
    text = ADDRESS.sub("<address>", text)
    text = TEMPORARY.sub("<tmp>", text)
    text = ABSOLUTE.sub(tail_of_path, text)
    text = HASH.sub("<id>", text)
    text = HOST_PORT.sub("<host>", text)
    text = VOLATILE.sub(r"\1\2N", text)
    text = NUMBER.sub("N", text)
    return " ".join(text.split())


def tail_of_path(found: re.Match[str]) -> str:
    """Keep the last two parts of an absolute path: check-outs lie in different places."""
    parts = [part for part in re.split(r"[\\/]", found.group()) if part]
    return "/".join(parts[-2:])


def numbers_of(message: str) -> list[tuple[float, bool]]:
    """Return the numbers that carry meaning, each with whether it must agree exactly."""
    text = TIME.sub(" ", message[:2000])
    for pattern in (UUID, ADDRESS, TEMPORARY, ABSOLUTE, HASH, HOST_PORT, VOLATILE):
        text = pattern.sub(" ", text)
    found = []
    for match in NUMBER.finditer(text):
        value = float(match.group())
        whole = match.group().lstrip("+-").isdigit()
        measured = bool(UNIT.match(text[match.end() : match.end() + 12]))
        found.append((value, whole and abs(value) < SMALL_INTEGER and not measured))
    return found


def numbers_agree(one: str, other: str) -> bool:
    """Say whether the numbers of two messages tell the same: status codes exactly, measures within 20 %."""
    left, right = numbers_of(one), numbers_of(other)
    if len(left) != len(right):
        return False
    return all(close(a, b) for a, b in zip(left, right, strict=True))


def close(one: tuple[float, bool], other: tuple[float, bool]) -> bool:
    """Say whether two numbers agree."""
    if one[1] or other[1]:
        return one[0] == other[0]
    return abs(one[0] - other[0]) <= RELATIVE_TOLERANCE * max(abs(one[0]), abs(other[0]))


def mask_quotes(normal: str) -> str:
    """Mask quoted text; a quote cut off at the end counts as one."""
    return OPEN_QUOTE.sub("<text>", QUOTED.sub("<text>", normal))


def likeness(one: Signature, other: Signature) -> Likeness:
    """Compare two signatures.

    `same`: equal once masked, and the numbers agree. `shape`: equal but for numbers or quoted text.
    """
    if one.short_class.lower() != other.short_class.lower():
        return "different"
    left, right = normalise(one.message), normalise(other.message)
    if equal_or_cut(left, right):
        return "same" if left != right or numbers_agree(one.message, other.message) else "shape"
    if left and right and mask_quotes(left) == mask_quotes(right) and free_text(left) and free_text(right):
        return "shape"
    return "different"


def equal_or_cut(left: str, right: str) -> bool:
    """Say whether two masked messages are equal; a terminal may have cut one of them."""
    if left == right:
        return True
    short, long = sorted((left.removesuffix("..."), right.removesuffix("...")), key=len)
    return len(short) >= TRUNCATED_MIN and long.startswith(short)


def free_text(normal: str) -> bool:
    """Say whether quotes hold prose (a model's answer), not a name (a key, a module)."""
    quotes = QUOTED.findall(normal) + OPEN_QUOTE.findall(normal)
    return any(" " in quote.strip("'\"`").strip() for quote in quotes)
