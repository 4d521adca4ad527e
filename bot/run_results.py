"""What a run's row says, read leniently: the runner lane's word is not trusted. Pure."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from perf_runner.models import CaseResult


def case_name(case: Any) -> str:
    """Return the name of a case, which a run holds whole or by name."""
    return str(case.get("name", "")) if isinstance(case, dict) else str(case)


def progress_words(progress: Mapping[str, Any]) -> str | None:
    """Return how far a run is, in words; None before its first sign of life."""
    done, most = progress.get("blocks_done"), progress.get("blocks_max")
    if not isinstance(done, int) or not isinstance(most, int):
        return None
    return f"{progress.get('case', 'A case')}: {done} of at most {most} blocks done"


def results_of(result: Mapping[str, Any]) -> tuple[CaseResult, ...]:
    """Return a run's results; what is not one (the lane's word is not trusted) is left out."""
    found = []
    for item in result.get("results") or ():
        try:
            found.append(CaseResult.model_validate(item))
        except ValidationError:
            continue
    return tuple(found)
