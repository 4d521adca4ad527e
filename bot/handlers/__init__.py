"""One verb a file: `gather` reads, `decide` is pure."""

from bot.dispatch import Handler
from bot.handlers import (
    bisect,
    ci,
    closed,
    command,
    expand,
    installed,
    nightly,
    page,
    perf,
    retry,
    route,
    settle,
    triage,
)

HANDLERS: dict[str, Handler] = {
    one.HANDLER.verb: one.HANDLER
    for one in (
        bisect,
        ci,
        closed,
        command,
        expand,
        installed,
        nightly,
        page,
        perf,
        retry,
        route,
        settle,
        triage,
    )
}
