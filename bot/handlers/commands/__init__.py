"""One command a file: `answer` is pure and says what is replied and done."""

from bot.handlers.commands import (
    ask,
    bench,
    cancel,
    help_,
    mine,
    more,
    pause,
    priority,
    resume,
    review,
    route,
    skip,
    unrelated,
    why,
)
from bot.handlers.commands.shared import Answer

ANSWERS: dict[str, Answer] = {
    "ask": ask.answer,
    "bench": bench.answer,
    "cancel": cancel.answer,
    "help": help_.answer,
    "mine": mine.answer,
    "more": more.answer,
    "pause": pause.answer,
    "priority": priority.answer,
    "resume": resume.answer,
    "review": review.answer,
    "route": route.answer,
    "skip": skip.answer,
    "unrelated": unrelated.answer,
    "why": why.answer,
}
