"""The administrator's settings in one TOML file, which the state folder keeps for the next start."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..platforms import is_encrypted
from ..services import HubError
from . import COURSE

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")  # the name of the grader (also a database role) or of an account
URL = re.compile(r"https?://[A-Za-z0-9._~:/?@!$&()*+,;=%\[\]-]+")
ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # a folder's name in a home directory


@dataclass(frozen=True)
class Lti:
    """The learning management system that people log in from (LTI 1.3), as it describes itself to a tool."""

    issuer: str  # the platform ID
    client_id: str
    authorize_url: str  # the authentication request URL (OIDC)
    jwks_url: str  # the public keyset URL
    deployments: list[str]  # deployment IDs whose users are admitted
    token_url: str = ""  # the access token URL; if empty, no scores are sent
    audience: str = ""  # audience of a token request, if the platform expects a value other than token_url
    # how the platform identifies a person: a claim of the login, or custom_NAME, a custom parameter
    claim: str = "email"
    context: str = ""  # the platform's ID of the course, if instructors open the hub from several courses

    def __post_init__(self) -> None:
        for key in ("issuer", "authorize_url", "jwks_url", "token_url"):
            value = getattr(self, key)
            if key == "token_url" and value == "":
                continue
            if not isinstance(value, str) or not URL.fullmatch(value) or not is_encrypted(value):
                raise HubError(
                    f"lti.{key} = {value!r} must be a URL that begins with https://, as shown by the "
                    "platform."
                )
        for key in ("client_id", "claim"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key).strip():
                raise HubError(f"lti.{key} = {getattr(self, key)!r} must be a string from the platform.")
        for key in ("audience", "context"):
            if not isinstance(getattr(self, key), str):
                raise HubError(f"lti.{key} = {getattr(self, key)!r} must be a string.")
        known = self.deployments
        if (
            not isinstance(known, list)
            or not known
            or not all(isinstance(item, str) and item for item in known)
        ):
            raise HubError(f'lti.deployments = {known!r} must be a list of deployment IDs, such as ["1"].')


@dataclass(frozen=True)
class Settings:
    """The hub's settings. Everything listens on loopback, behind TLS and a network provided by the site."""

    # port of the proxy; the next four are for its API, the hub, Formgrader and the official check
    port: int = 8000
    # the address of the hub itself, which servers in jobs of a site's Slurm must be able to reach
    hub_address: str = "127.0.0.1"
    grader: str = "course-grader"  # the Unix user that owns solutions, submissions and gradebook
    homes: str = ""  # folder for homes of users created here; if empty, home/ in the state folder
    folder: str = ""  # folder in each home, for the course's files; JupyterLab shows it. If empty, the home
    # instructors see how many cells students have filled in, and students are informed of this
    progress: bool = False
    after: str = ""  # number of the last assignment whose answers students may see, as for `make student`
    spawner: str = "local"  # local: servers run on this machine; slurm: each server is a job
    slurm: str = "none"  # none; machine: the single-host Slurm, started with the hub; site: an existing one
    account: str = "course"  # the students' Slurm account
    database: str = "sqlite"  # sqlite; postgresql in the state folder; or a server's URL without a database
    user_prefix: str = ""  # for users whose login on the platform begins with a digit: s makes s1234567
    idle_minutes: int = 120  # stop a server after this many minutes without activity; 0 for never
    servers: int = 100  # maximum number of running servers
    checks: int = 3  # official checks per hour, student and assignment; 0 for none
    checks_in_all: int = 30  # official checks in total, per student and assignment
    # memory limit of each process (a server, a kernel) of a local server; 0 for no limit
    memory_gib: float = 0
    lti: Lti | None = None  # a table [lti]: people log in from this platform instead of with a password
    extra: str = ""  # Python file loaded after the generated jupyterhub_config.py: authenticator, limits, TLS

    def __post_init__(self) -> None:
        choices = {"spawner": ("local", "slurm"), "slurm": ("none", "machine", "site")}
        for key, known in choices.items():
            if getattr(self, key) not in known:
                raise HubError(f"{key} = {getattr(self, key)!r} must be {' or '.join(map(repr, known))}.")
        for key, low, high in (("port", 1024, 65531), ("idle_minutes", 0, 10**6), ("servers", 1, 10**5),
                               ("checks", 0, 10**4), ("checks_in_all", 1, 10**4)):  # fmt: skip
            value = getattr(self, key)
            if type(value) is not int or not low <= value <= high:
                raise HubError(f"{key} = {value!r} must be a whole number from {low} to {high}.")
        if type(self.memory_gib) not in (int, float) or not (self.memory_gib == 0 or self.memory_gib >= 0.5):
            raise HubError(
                f"memory_gib = {self.memory_gib!r} must be a number of GiB, at least 0.5, or 0 for no limit."
            )
        if type(self.progress) is not bool:
            raise HubError(f"progress = {self.progress!r} must be true or false.")
        if not ADDRESS.fullmatch(str(self.hub_address)):
            raise HubError(
                f"hub_address = {self.hub_address!r} must be an IPv4 address or the name of this machine."
            )
        for key in ("grader", "account"):
            if not NAME.fullmatch(str(getattr(self, key))):
                raise HubError(
                    f"{key} = {getattr(self, key)!r} must be a lower-case letter (a to z) or '_', then also "
                    "digits and '-', at most 32 characters in all."
                )
        if self.user_prefix and not re.fullmatch("[a-z_][a-z0-9_]{0,7}", str(self.user_prefix)):
            raise HubError(
                f"user_prefix = {self.user_prefix!r} must be a lower-case letter, then digits too, at most 8."
            )
        if not isinstance(self.folder, str) or (self.folder and not FOLDER.fullmatch(self.folder)):
            raise HubError(
                f"folder = {self.folder!r} must name a folder in each home, with letters, digits, '.', '_' "
                "and '-', or empty."
            )
        for key in ("homes", "extra"):
            value = getattr(self, key)
            if not isinstance(value, str) or (value and not value.startswith("/")):
                raise HubError(f"{key} = {value!r}: a full path, or empty.")
        if self.extra and not Path(self.extra).is_file():
            raise HubError(f"extra = {self.extra!r}: no such file.")
        if self.database not in ("sqlite", "postgresql") and not re.match(
            r"postgresql(\+psycopg)?://[^/]+$", str(self.database)
        ):
            raise HubError(
                f"database = {self.database!r} must be 'sqlite', 'postgresql' or "
                "postgresql://USER:PASSWORD@HOST:PORT (the databases `hub` and `gradebook` of that "
                "server are used)."
            )
        if self.spawner == "slurm" and self.slurm == "none":
            raise HubError("spawner = 'slurm' needs a Slurm: slurm = 'machine' or 'site'.")

    @property
    def public(self) -> str:
        """The URL for users."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def proxy_api(self) -> str:
        """The address of the proxy's API."""
        return f"http://127.0.0.1:{self.port + 1}"

    @property
    def hub(self) -> str:
        """The address of the hub itself."""
        return f"http://{self.hub_address}:{self.port + 2}"

    @property
    def formgrader(self) -> str:
        """The address of Formgrader itself."""
        return f"http://127.0.0.1:{self.port + 3}"

    @property
    def check(self) -> str:
        """The address of the official check service itself."""
        return f"http://127.0.0.1:{self.port + 4}"

    @property
    def pages(self) -> str:
        """Formgrader's pages, as instructors open them."""
        return f"{self.public}/services/{COURSE}/formgrader"

    @property
    def class_page(self) -> str:
        """The URL of the class page, for instructors."""
        return f"{self.public}/services/{COURSE}/course/class"


def from_values(values: dict) -> Settings:
    """Return settings from plain values, as in TOML and JSON. Raises HubError for unknown keys."""
    known = [f.name for f in dataclasses.fields(Settings)]
    if odd := sorted(values.keys() - set(known)):
        near = difflib.get_close_matches(odd[0], known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise HubError(f"unknown settings: {', '.join(odd)}.{hint} Known settings: {', '.join(known)}.")
    if (lti := values.get("lti")) is not None:
        values = values | {"lti": _lti(lti)}
    return Settings(**values)


def _lti(values: object) -> Lti:
    """Return the table [lti]."""
    if not isinstance(values, dict):
        raise HubError(f"lti = {values!r} must be a table, [lti], as described in the hub's README.")
    fields = {f.name: f.default is dataclasses.MISSING for f in dataclasses.fields(Lti)}
    if odd := sorted(values.keys() - fields.keys()):
        raise HubError(f"[lti] has unknown keys: {', '.join(odd)}. Known are: {', '.join(fields)}.")
    if absent := [name for name, needed in fields.items() if needed and name not in values]:
        raise HubError(
            f"[lti] lacks {', '.join(absent)}. The platform shows these values once the hub is registered."
        )
    return Lti(**values)


def from_toml(path: Path) -> Settings:
    """Return settings from a TOML file; missing keys keep their defaults."""
    try:
        return from_values(tomllib.loads(path.read_text()))
    except OSError as e:
        raise HubError(f"{path}: {e.strerror}.") from None
    except tomllib.TOMLDecodeError as e:
        raise HubError(f"{path} is not valid TOML: {e}.") from None


def as_values(settings: Settings) -> dict:
    """Convert settings to plain values, the inverse of `from_values`."""
    return dataclasses.asdict(settings)
