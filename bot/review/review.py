"""The review: every rule over one change. Pure and deterministic."""

from bot.review.change import Change, parse_diff
from bot.review.claims import Description
from bot.review.models import ORDER, Finding, Review, ReviewRequest
from bot.review.rules import RULES


def review(request: ReviewRequest) -> Review:
    """Return the findings, the gravest first, and the claims; ValueError for an unreadable diff."""
    change = Change(request.title, request.body, parse_diff(request.diff) if request.diff.strip() else ())
    found = {finding for rule in RULES for finding in rule(change)}
    return Review(
        findings=tuple(sorted(found, key=rank)), claims=Description(change.title, change.body).claims
    )


def rank(finding: Finding) -> tuple[int, str, int, str, str]:
    """Order findings by severity, then by where they are."""
    return ORDER[finding.severity], finding.path or "", finding.line or 0, finding.rule, finding.says
