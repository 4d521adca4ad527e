"""Does a pull request prove its claim? Deterministic rules over the diff and the description."""

from bot.review.models import Claim, Finding, Review, ReviewRequest
from bot.review.review import review

__all__ = ["Claim", "Finding", "Review", "ReviewRequest", "review"]
