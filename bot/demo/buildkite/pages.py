"""What people see of a build: its jobs, and the log of each, at the address that evidence leads to."""

from html import escape

from bot.ci.clean import clean_lines
from bot.demo.buildkite.state import Build, Job

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "Cache-Control": "no-store",
}
STYLE = (
    ":root { color-scheme: light dark; } body { font: 16px/1.5 system-ui, sans-serif; margin: 1rem; }"
    "pre { overflow-x: auto; } summary:target, section:target > h2 { text-decoration: underline; }"
)


def build_page(build: Build) -> str:
    """Return a build as an HTML page; everything that a build says is text."""
    title = escape(f"{build.pipeline} #{build.number}: {build.state}")
    jobs = "\n".join(job_section(job) for job in build.jobs)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{STYLE}</style></head>'
        f"<body><p>A stand-in for Buildkite on this machine</p><h1>{title}</h1>"
        f"<p>Commit <code>{escape(build.commit)}</code></p>{jobs}</body></html>"
    )


def job_section(job: Job) -> str:
    """Return a job with its log, which is open where the job is red."""
    head = f'<section id="{escape(job.id, quote=True)}"><h2>{escape(job.name)}: {escape(job.state)}</h2>'
    if job.log is None:
        return f"{head}<p>Its log is gone.</p></section>"
    text = "\n".join(clean_lines(job.log))
    unfolded = "" if job.state == "passed" else " open"
    return f"{head}<details{unfolded}><summary>Log</summary><pre>{escape(text)}</pre></details></section>"
