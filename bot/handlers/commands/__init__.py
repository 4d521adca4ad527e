"""One command a file: `answer` is pure and says what is replied and done."""

from bot.handlers.commands import (
    ask,
    bench,
    bisect,
    cancel,
    help_,
    mine,
    more,
    pause,
    priority,
    resume,
    retry,
    review,
    route,
    settle,
    skip,
    unrelated,
    why,
)
from bot.handlers.commands.shared import Answer

ANSWERS: dict[str, Answer] = {
    "ask": ask.answer,
    "bench": bench.answer,
    "bisect": bisect.answer,
    "cancel": cancel.answer,
    "help": help_.answer,
    "mine": mine.answer,
    "more": more.answer,
    "pause": pause.answer,
    "priority": priority.answer,
    "resume": resume.answer,
    "retry": retry.answer,
    "review": review.answer,
    "route": route.answer,
    "settle": settle.answer,
    "skip": skip.answer,
    "unrelated": unrelated.answer,
    "why": why.answer,
}
