"""One verb a file: `gather` reads, `decide` is pure."""

from bot.dispatch import Handler
from bot.handlers import ci, closed, command, expand, installed, perf, route, triage

HANDLERS: dict[str, Handler] = {
    one.HANDLER.verb: one.HANDLER for one in (ci, closed, command, expand, installed, perf, route, triage)
}
