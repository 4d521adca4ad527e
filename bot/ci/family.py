"""One signature, one verdict: siblings on other shards and platforms are judged together."""

from collections import defaultdict
from collections.abc import Sequence

from bot.ci.decide import Decision, is_proven_by_base
from bot.ci.evidence import Evidence
from bot.ci.names import cousin
from bot.ci.signature import normalise
from bot.ci.weigh import Weighed

Key = tuple[str, str, str]


def with_siblings(weighed: Sequence[Weighed], decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions with those of siblings made equal: guilt spreads, proof spreads, doubt stays."""
    families: dict[Key, list[int]] = defaultdict(list)
    for place, one in enumerate(weighed):
        key = sibling_key(one)
        if key:
            families[key].append(place)
    result = list(decisions)
    for places in families.values():
        if len(places) > 1:
            for place in places:
                result[place] = adopted(weighed, decisions, place, places)
    return result


def sibling_key(one: Weighed) -> Key | None:
    """Return what siblings share: test, class and message; without a test, the step on other platforms."""
    signature = one.case.failure.signature
    if signature is None or signature.is_wrapper:
        return None
    test = one.case.failure.key
    if test is None and signature.is_generic:
        return None
    where = test or f"step {cousin(one.case.job.name)} {one.case.failure.file or ''}"
    return where, signature.short_class.lower(), normalise(signature.message)


def adopted(
    weighed: Sequence[Weighed], decisions: Sequence[Decision], place: int, places: Sequence[int]
) -> Decision:
    """Return one sibling's decision in the light of the others'."""
    own = decisions[place]
    guilty = next((other for other in places if decisions[other].ruling == "regression"), None)
    if guilty is not None and own.ruling != "regression" and not is_proven_by_base(own):
        if own.ruling == "unknown" and not weighed[place].doubts():
            return Decision(
                "regression", "caused_by_pr", (told_by(weighed, decisions, guilty), *own.evidence)
            )
        return Decision("unknown", None, (told_by(weighed, decisions, guilty), *own.evidence))
    if own.ruling != "unknown" or weighed[place].guilt or weighed[place].case.failure.category == "unread":
        return own
    proven = next((other for other in places if may_spread(decisions[other], weighed[place])), None)
    if proven is None:
        return own
    return Decision("unrelated", decisions[proven].kind, (told_by(weighed, decisions, proven), *own.evidence))


def may_spread(decision: Decision, to: Weighed) -> bool:
    """Say whether an excuse holds for a sibling too.

    A tracked issue does; the base does where the sibling's own job did not pass there; one retry does not.
    """
    if decision.ruling != "unrelated":
        return False
    if is_proven_by_base(decision):
        return to.on_base.state != "passed"
    return decision.rule in ("known_issue", "same_signature_on_other_pulls")


def told_by(weighed: Sequence[Weighed], decisions: Sequence[Decision], place: int) -> Evidence:
    """Return the sibling's evidence, in its name."""
    first = decisions[place].evidence[0]
    says = f"The same failure in `{weighed[place].case.job.name}`: {first.says}"
    return Evidence("same_signature_as_sibling", first.strength, says, first.url, first.sha)
