"""The server's settings: `PRGATE_…` in the environment, read once at start; secrets never print."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from bot.errors import ConfigurationError

PREFIX = "PRGATE_"
Role = Literal["serve", "worker", "beat"]
Access = Literal["public", "sign-in"]


class Settings(BaseSettings):
    """What a server process is told. Durations are in the unit of their name; lists are comma-separated."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    data_dir: Path = Field(default=Path(".prgate"), description="folder of the database and the mirrors")
    database_url: str = Field(
        default="", repr=False, description="postgresql://… (empty: SQLite in the data folder)"
    )
    broker_url: str = Field(
        default="", repr=False, description="redis://… or redis+socket://… of Celery's broker"
    )
    broker_prefix: str = Field(default="", description="key prefix of the broker, one a service")
    lane_broker_url: str = Field(
        default="", repr=False, description="broker of the runner lane (empty: broker_url)"
    )
    lane_broker_prefix: str = Field(default="", description="key prefix of the runner lane's broker")
    public_url: str = Field(default="http://127.0.0.1:8080", description="where people reach the service")

    webhook_secrets: SecretStr = Field(default=SecretStr(""), description="GitHub's webhook secrets")
    github_api_url: str = "https://api.github.com"
    github_web_url: str = "https://github.com"
    github_app_id: str = ""
    github_private_key: SecretStr = SecretStr("")
    github_private_key_path: Path | None = None
    github_token: SecretStr = SecretStr("")
    github_write_gap_s: float = Field(default=1.0, ge=0, description="pause between two writes to GitHub")
    github_writes_a_minute: int = Field(default=80, ge=1, description="most writes of an installation")
    github_writes_an_hour: int = Field(default=500, ge=1, description="most writes of an installation")
    clone_url: str = Field(
        default="{web}/{full_name}.git", description="source of a repository's commits, for the bundles"
    )
    handles: str = Field(default="", description="more names that the bot answers to")

    dashboard_access: Access = Field(
        default="public",
        description="public: public repositories are open to everybody; sign-in: nothing is without it",
    )
    github_client_id: str = Field(default="", description="the App's client id, with which people sign in")
    github_client_secret: SecretStr = SecretStr("")
    setup_file: Path | None = Field(
        default=None, description="where /setup writes the settings of a new App (empty: it shows them once)"
    )

    buildkite_api_url: str = "https://api.buildkite.com"
    buildkite_token: SecretStr = SecretStr("")
    buildkite_webhook_secret: SecretStr = SecretStr("")
    buildkite_org: str = ""
    log_hosts: str = Field(default="", description="more hosts that CI logs may be fetched from")

    service_key: SecretStr = Field(default=SecretStr(""), description="signs the run tokens")
    lane_keys: SecretStr = Field(default=SecretStr(""), description="what runner workers poll with")
    allow_unsandboxed: bool = Field(default=False, description="for the embedded demo alone")
    run_token_minutes: int = Field(default=240, ge=1)
    run_attempts: int = Field(default=3, ge=1)

    lease_s: float = Field(default=60.0, gt=0)
    heartbeat_s: float = Field(default=15.0, gt=0)
    attempts: int = Field(default=3, ge=1)
    job_limit_s: int = Field(default=300, ge=1)
    visibility_s: int = Field(default=3600, ge=1)
    retry_delay_s: float = Field(default=10.0, ge=0)
    outage_delay_s: float = Field(default=30.0, gt=0, description="pause while GitHub does not answer")
    sweep_s: float = Field(default=5.0, gt=0)
    resend_s: float = Field(default=10.0, gt=0)
    reconcile_minutes: int = Field(default=10, ge=1)
    redeliver_s: float = Field(
        default=3600.0, gt=0, description="pause between two looks for deliveries that did not arrive"
    )
    keep_payload_days: int = Field(default=30, ge=1)
    keep_log_days: int = Field(default=90, ge=1)

    max_body_bytes: int = Field(default=26_214_400, ge=1024, description="GitHub sends at most 25 MiB")
    max_waiting: int = Field(default=2_000, ge=1, description="deliveries waiting for the writer")
    log_level: str = "INFO"

    @field_validator("github_api_url", "github_web_url", "buildkite_api_url", "public_url")
    @classmethod
    def check_url(cls, value: str) -> str:
        """Require http or https, and drop the slash at the end."""
        if not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/")

    @property
    def knows_github(self) -> bool:
        """Say whether an identity on GitHub was chosen; until then the service offers to make one."""
        return bool(self.github_app_id or self.github_token.get_secret_value())

    @property
    def may_sign_in(self) -> bool:
        """Say whether people can sign in."""
        return bool(self.github_client_id and self.github_client_secret.get_secret_value())

    @cached_property
    def database(self) -> str:
        """The database's URL, with the default filled in."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'prgate.db'}"

    @cached_property
    def private_key(self) -> str:
        """The App's private key, from the variable or its file; empty without one."""
        inline = self.github_private_key.get_secret_value().replace("\\n", "\n")
        if inline or self.github_private_key_path is None:
            return inline
        try:
            return self.github_private_key_path.read_text("utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"PRGATE_GITHUB_PRIVATE_KEY_PATH: cannot read the file ({error.strerror})"
            ) from None

    @cached_property
    def log_host_list(self) -> tuple[str, ...]:
        """The extra hosts that logs may come from."""
        return split(self.log_hosts)

    @cached_property
    def handle_list(self) -> tuple[str, ...]:
        """The extra names that the bot answers to, without `@`."""
        return tuple(name.lstrip("@") for name in split(self.handles))

    def secrets(self) -> tuple[str, ...]:
        """Return every secret value, for the log's redaction and nothing else."""
        plain = [value.get_secret_value() for _, value in self if isinstance(value, SecretStr)]
        parts = [part for value in plain for part in (value, *split(value))]
        urls = [password_of(url) for url in (self.database_url, self.broker_url, self.lane_broker_url)]
        return tuple(dict.fromkeys(value for value in [*parts, self.private_key, *urls] if value))


def split(value: str) -> tuple[str, ...]:
    """Return the parts of a comma-separated list."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def secret_list(value: SecretStr) -> tuple[str, ...]:
    """Return the parts of a comma-separated list of secrets."""
    return split(value.get_secret_value())


def password_of(url: str) -> str:
    """Return the password in a URL as it is written there; empty without one."""
    authority = url.partition("://")[2].split("/", 1)[0]
    credentials = authority.rpartition("@")[0]
    return credentials.partition(":")[2]


def load_settings(environment: Mapping[str, object] | None = None) -> Settings:
    """Return the settings of the environment, with `environment` (fields by name) above it.

    ConfigurationError, one line, for a value that cannot be.
    """
    try:
        return Settings.model_validate({**Settings().model_dump(), **(environment or {})})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = "_".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{PREFIX}{name.upper()}: {first['msg']}") from None


def missing(settings: Settings, role: Role) -> tuple[str, ...]:
    """Return what `role` cannot start without, as names of variables."""
    wanted: list[tuple[str, bool]] = [("BROKER_URL", bool(settings.broker_url))]
    if role == "serve":
        wanted.append(("WEBHOOK_SECRETS", bool(secret_list(settings.webhook_secrets))))
        wanted.append(("SERVICE_KEY", bool(settings.service_key.get_secret_value())))
    if role == "worker":
        account = bool(settings.github_token.get_secret_value())
        app = bool(settings.github_app_id and settings.private_key)
        wanted.append(
            ("GITHUB_TOKEN (or PRGATE_GITHUB_APP_ID with PRGATE_GITHUB_PRIVATE_KEY)", account or app)
        )
    return tuple(PREFIX + name for name, there in wanted if not there)


def require(settings: Settings, role: Role) -> None:
    """Raise ConfigurationError, one line, where something is missing or does not fit together.

    A web service that nothing of GitHub was told to yet starts all the same: its page `/setup` makes it.
    """
    lacking = missing(settings, role)
    if role == "serve" and is_new(settings):
        lacking = tuple(name for name in lacking if name == PREFIX + "BROKER_URL")
    if lacking:
        raise ConfigurationError(f"cannot start, please set {', '.join(lacking)}")
    problems = list(contradictions(settings))
    if problems:
        raise ConfigurationError(problems[0])


def is_new(settings: Settings) -> bool:
    """Say whether nothing of GitHub is configured: no identity and no webhook secret."""
    return not settings.knows_github and not secret_list(settings.webhook_secrets)


def contradictions(settings: Settings) -> Iterable[str]:
    """Yield settings that defeat each other."""
    if settings.heartbeat_s * 2 > settings.lease_s:
        yield "PRGATE_HEARTBEAT_S must be at most half of PRGATE_LEASE_S, or one late beat loses the lease"
    if settings.visibility_s <= settings.job_limit_s:
        yield "PRGATE_VISIBILITY_S must be above PRGATE_JOB_LIMIT_S, or a long job is delivered twice"
    if settings.dashboard_access == "sign-in" and not settings.may_sign_in and not is_new(settings):
        yield (
            "PRGATE_DASHBOARD_ACCESS=sign-in needs PRGATE_GITHUB_CLIENT_ID and PRGATE_GITHUB_CLIENT_SECRET, "
            "or nobody can read"
        )
