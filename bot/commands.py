"""`@bot bench …` in a comment -> commands: pure. What the bot is told, and what it can be told."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.markdown import READ_LIMIT, known_lines, plain_lines, without_pasted

MOST_COMMANDS = 5
MOST_WORDS = 40


class Who(StrEnum):
    """Who may give a command; the words are shown in a refusal."""

    ANYONE = "anyone"
    AUTHOR_OR_TRIAGE = "the author, or someone with triage permission"
    AUTHOR_OR_WRITE = "the author, or someone with write permission"
    WRITE = "someone with write permission"
    ASKED = "someone who was asked for a review here"


@dataclass(frozen=True, slots=True)
class Spec:
    """One verb: its arguments as shown in the help, who may use it, and how many words may follow it."""

    verb: str
    arguments: str
    says: str
    who: Who
    most_words: int = 0
    least_words: int = 0

    @property
    def usage(self) -> str:
        """Return the verb with its arguments."""
        return f"{self.verb} {self.arguments}".rstrip()


SPECS: tuple[Spec, ...] = (
    Spec("help", "", "lists what I understand", Who.ANYONE),
    Spec("review", "", "runs the automated review on this head", Who.AUTHOR_OR_TRIAGE),
    Spec("bench", "[case…] [vs REV]", "measures this head against its merge base", Who.WRITE, most_words=20),
    Spec("more", "", "adds blocks to a measurement that was inconclusive", Who.WRITE),
    Spec("bisect", "[case] [GOOD..BAD]", "searches the first bad commit of a slowdown", Who.WRITE, 4),
    Spec(
        "cancel", "", "stops what waits and runs for this pull request on our machines", Who.AUTHOR_OR_WRITE
    ),
    Spec("why", "[job]", "explains the verdict on a red job, or all that was decided here", Who.ANYONE, 20),
    Spec("settle", "[job or test, …]", "runs undecided tests on merge base and head", Who.WRITE, 40),
    Spec("retry", "[job, …]", "asks CI to run flaky or infrastructure failures again", Who.WRITE, 40),
    Spec("route", "", "works out the owners again", Who.AUTHOR_OR_TRIAGE),
    Spec("ask", "", "requests the next owner as well", Who.AUTHOR_OR_TRIAGE),
    Spec("skip", "", "passes you over on this pull request", Who.ASKED),
    Spec("priority", "critical|high|medium|low|auto", "sets the priority by hand", Who.WRITE, 1, 1),
    Spec("unrelated", "job [because …]", "declares a red job not this pull request's", Who.WRITE, 40, 1),
    Spec("mine", "job [because …]", "declares a red job this pull request's", Who.AUTHOR_OR_WRITE, 40, 1),
    Spec("pause", "", "keeps me silent on this pull request", Who.AUTHOR_OR_WRITE),
    Spec("resume", "", "lets me speak again", Who.AUTHOR_OR_WRITE),
)
VERBS = {spec.verb: spec for spec in SPECS}
ALIASES = {
    "benchmark": "bench",
    "commands": "help",
    "rerun": "retry",
    "reroute": "route",
    "re-route": "route",
}

# A line made of these words only, with one that asks for it, asks for a review.
ASKING = frozenset({"review", "reviews", "rereview", "re-review", "look", "ptal", "check", "reviewing"})
POLITE_WORDS = """
a again all and another author's can change changes code could current diff for have head hello hey hi i it
kindly latest me my new now of on once one our patch please pls plz pr pull push request submitted take thank
thanks that the this to updated us version we when will would you your
"""
POLITE = frozenset(POLITE_WORDS.split())


@dataclass(frozen=True, slots=True)
class Command:
    """One understood command; `text` is what followed the verb, as written."""

    verb: str
    text: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words after the verb."""
        return tuple(self.text.split())


@dataclass(frozen=True, slots=True)
class Misunderstood:
    """A line addressed to the bot that is no command; `suggestion` is a usage line, if one is near."""

    said: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A command behind the part of a long comment that is read."""

    line: str


Said = Command | Misunderstood | Unread


def parse(body: str, handles: Sequence[str], own_bodies: Sequence[str] = ()) -> tuple[Said, ...]:
    """Return what the comment tells the bot, in order, each once.

    Only lines of plain paragraphs that start with one of `handles` count: nothing in code, quotes, lists,
    HTML, links, or the middle of a sentence, and no line that occurs in `own_bodies` (pasted bot text).
    """
    mention = mention_pattern(handles)
    if mention is None or not mention.search(body):
        return ()
    lines = without_pasted(plain_lines(body), known_lines(own_bodies))
    found: dict[Said, None] = {}
    for line in lines:
        addressed = mention.match(line)
        said = understand(line[addressed.end() :]) if addressed else None
        if said is not None:
            found.setdefault(said)
    unread = behind_the_limit(body, mention)
    return (*tuple(found)[:MOST_COMMANDS], *((unread,) if unread else ()))


def behind_the_limit(body: str, mention: re.Pattern[str]) -> Unread | None:
    """Return the first line behind what is read of a comment that looks like a command; None without one.

    It is not parsed, so it may stand in code or in a quote: it is answered, never obeyed.
    """
    for line in body[READ_LIMIT:].split("\n")[1:]:
        addressed = mention.match(line)
        if addressed and isinstance(understand(line[addressed.end() :]), Command):
            return Unread(line[:100].strip())
    return None


def mention_pattern(handles: Sequence[str]) -> re.Pattern[str] | None:
    """Return what matches a mention of any handle; None when there is no handle."""
    names = "|".join(re.escape(handle.removeprefix("@")) for handle in handles if handle.strip("@ "))
    if not names:
        return None
    return re.compile(rf"(?<![\w/@.-])@(?:{names})(?:\[bot\])?(?![\w/-])", re.IGNORECASE)


def understand(rest: str) -> Said | None:
    """Return what the words after a mention mean; None where they are a sentence about the bot."""
    words = rest.strip(" \t:,").split()
    if asks_for_review(words):
        return Command("review")
    verb = ALIASES.get(words[0].casefold(), words[0].casefold())
    spec = VERBS.get(verb.rstrip(".!"))
    if spec is None:
        return misunderstood(words)
    count = len(words) - 1
    if count > spec.most_words:
        return Misunderstood(" ".join(words), spec.usage) if count <= 2 else None
    if count < spec.least_words:
        return Misunderstood(" ".join(words), spec.usage)
    return Command(spec.verb, " ".join(words[1:]))


def asks_for_review(words: Sequence[str]) -> bool:
    """Say whether the words are none, or nothing but a polite request for a review."""
    bare = [word.casefold().strip(".,!?:;()") for word in words[:MOST_WORDS]]
    bare = [word for word in bare if word]
    if len(words) > MOST_WORDS:
        return False
    return not bare or (
        any(word in ASKING for word in bare) and all(word in ASKING | POLITE for word in bare)
    )


def misunderstood(words: Sequence[str]) -> Misunderstood | None:
    """Return a did-you-mean for a near miss or a lone word; None for what reads like a sentence."""
    first = words[0].casefold().strip(".,!?")
    if first in POLITE:
        return None
    near = difflib.get_close_matches(first[:40], [*VERBS, *ALIASES], n=1, cutoff=0.7)
    if near and len(words) <= 4:
        verb = ALIASES.get(near[0], near[0])
        return Misunderstood(" ".join(words), VERBS[verb].usage)
    return Misunderstood(words[0]) if len(words) == 1 else None
