"""JUnit reports among a job's artifacts: files and zip archives of somebody else's, bounded all round."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bot.ci.snapshot import Job

MOST_MEMBERS = 50
MEMBER_LIMIT = 16 * 1024**2
DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,200}\?>")
REPORT = re.compile(r"junit|test|report|result", re.IGNORECASE)
# An artifact is uploaded while its job runs; GitHub's clock may show it a little later.
UPLOAD_SLACK = timedelta(minutes=2)


def may_be_junit(artifact: Mapping[str, Any], job: Job) -> bool:
    """Say whether an artifact is a job's test report: named after both, and made while the job ran."""
    name = str(artifact.get("name") or "")
    made = Job.model_validate({"started_at": artifact.get("created_at")}).started_at
    if artifact.get("expired") or made is None or job.started_at is None or job.finished_at is None:
        return False
    own = words(job.name.rpartition(" / ")[2])
    inside = job.started_at <= made <= job.finished_at + UPLOAD_SLACK
    return inside and bool(REPORT.search(name)) and own <= words(name)


def is_report(path: str, size_bytes: int) -> bool:
    """Say whether a file among a job's own artifacts is a test report, and short enough to be read."""
    return (
        path.lower().endswith(".xml") and bool(REPORT.search(path[:1_000])) and 0 < size_bytes <= MEMBER_LIMIT
    )


def words(name: str) -> frozenset[str]:
    """Return the words of a name."""
    return frozenset(word for word in re.split(r"[^a-z0-9]+", name.lower()) if word)


def junit_of(packed: bytes) -> str | None:
    """Return the reports of an archive as one document; None where there is none to be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            reports = list(members(archive))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError):
        return None
    return joined(reports)


def joined(reports: Sequence[str]) -> str | None:
    """Return reports as one document; None where there is none."""
    if not reports:
        return None
    return "<testsuites>" + "".join(DECLARATION.sub("", one, count=1) for one in reports) + "</testsuites>"


def text_of(raw: bytes) -> str | None:
    """Return a report's text; None where the bytes are none."""
    text = raw.decode("utf-8", errors="replace").removeprefix("\ufeff")
    return text if "<testsuite" in text[:4_000] else None


def members(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the texts of the archive's reports, each within a limit. ValueError where one is longer."""
    found = [one for one in archive.infolist() if one.filename.lower().endswith(".xml")]
    for member in found[:MOST_MEMBERS]:
        with archive.open(member) as stream:
            raw = stream.read(MEMBER_LIMIT + 1)
        if len(raw) > MEMBER_LIMIT:
            raise ValueError(member.filename)
        text = text_of(raw)
        if text is not None:
            yield text
