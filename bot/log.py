"""JSON logs on stderr, bound to delivery, repository, pull request and job; secrets never get through."""

import json
import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any

import structlog

MASK = "[redacted]"
# What a credential looks like, wherever it came from: GitHub's, Buildkite's, PEM keys, headers, URLs.
SHAPES = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20,255}"
    r"|github_pat_[A-Za-z0-9_]{20,255}"
    r"|bk[a-z]{2}_[A-Za-z0-9]{20,255}"
    r"|-----BEGIN [A-Z ]{1,40}PRIVATE KEY-----[^-]{1,8000}-----END [A-Z ]{1,40}PRIVATE KEY-----"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,2000}"
    r"|(?<=://)[^\s/:@\"]{0,200}:[^\s/@\"]{1,500}(?=@)"
)
SHORTEST_SECRET = 6

Fields = MutableMapping[str, Any]


class Redactor:
    """Renders a log line as JSON with every known secret, and all that looks like one, masked."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spelled = {form for secret in secrets if len(secret) >= SHORTEST_SECRET for form in forms(secret)}
        self._secrets = sorted(spelled, key=len, reverse=True)

    def __call__(self, _logger: Any, _method: str, fields: Fields) -> str:
        """Return the line; control characters are escaped, so that a value cannot forge a second line."""
        return self.clean(json.dumps(dict(fields), default=str, ensure_ascii=True))

    def clean(self, text: str) -> str:
        """Return the text with secrets masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return SHAPES.sub(MASK, text)


def forms(secret: str) -> tuple[str, str]:
    """Return a secret as it is and as JSON spells it (a key has line ends)."""
    return secret, json.dumps(secret)[1:-1]


def configure(level: str = "INFO", secrets: Iterable[str] = ()) -> None:
    """Send this process's logs, those of libraries too, to stderr as one JSON document a line."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, Redactor(secrets)],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "celery", "celery.task", "multiprocessing"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
    for name in ("urllib3", "httpx", "httpcore", "kombu", "amqp", "alembic", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def bound(**fields: Any) -> Any:
    """Return a context manager within which every line carries `fields`."""
    return structlog.contextvars.bound_contextvars(**fields)
