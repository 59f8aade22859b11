"""The administrator's settings in one TOML file, which the state folder keeps for the next start."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from .. import declared
from ..declared import one_of, setting, table, text, whole
from ..lti.platform_login import Lti
from ..services import HubError as HubError
from . import COURSE

NAME = text(
    r"[a-z_][a-z0-9_-]{0,31}",  # also the name of a database role
    "a lower-case letter (a to z) or '_', then also digits and '-', at most 32 characters in all",
)
PATH = text("(/.*)?", "a full path, or empty")
MEMORY = (
    lambda v: type(v) in (int, float) and (v == 0 or v >= 0.5),
    "a number of GiB, at least 0.5, or 0 for no limit",
)
DATABASE = text(
    r"sqlite|postgresql(\+psycopg)?://[^/]+",
    "'sqlite' or postgresql://USER:PASSWORD@HOST:PORT, a server with the databases `hub` and `gradebook`",
)
PORTS = 5  # consecutive ports that a hub listens on


@dataclass(frozen=True)
class Settings:
    """The hub's settings. Everything listens on loopback, behind TLS and a network provided by the site."""

    # port of the proxy; the next four are for its API, the hub, Formgrader and the official check
    port: int = setting(whole(1024, 65536 - PORTS), 8000)
    # the address of the hub itself, which servers in jobs of a site's Slurm must be able to reach
    hub_address: str = setting(
        text(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", "an IPv4 address or the name of this machine"),
        "127.0.0.1",
    )
    grader: str = setting(NAME, "course-grader")  # the Unix user that owns solutions, submissions, gradebook
    homes: str = setting(PATH, "")  # for homes of users created here; if empty, home/ in the state folder
    # folder in each home, for the course's files; JupyterLab shows it. If empty, the home
    folder: str = setting(
        text(
            "([A-Za-z0-9][A-Za-z0-9._-]{0,63})?",
            "a folder's name, with letters, digits, '.', '_' and '-', or empty",
        ),
        "",
    )
    # instructors see how many cells students have filled in, and students are informed of this
    progress: bool = setting((lambda v: type(v) is bool, "true or false"), False)
    # number of the last assignment whose answers students may see, as for `make student`
    after: str = setting(text(".*", "an assignment's number in quotes, or empty"), "")
    # local: servers run on this machine; slurm: each server is a job
    spawner: str = setting(one_of("local", "slurm"), "local")
    # none; machine: the single-host Slurm, started with the hub; site: an existing one
    slurm: str = setting(one_of("none", "machine", "site"), "none")
    account: str = setting(NAME, "course")  # the students' Slurm account
    database: str = setting(DATABASE, "sqlite")  # sqlite, or a PostgreSQL server's URL without a database
    # for users whose login on the platform begins with a digit: s makes s1234567
    user_prefix: str = setting(
        text("([a-z_][a-z0-9_]{0,7})?", "a lower-case letter, then digits too, at most 8"), ""
    )
    # stop a server after this many minutes without activity; 0 for never
    idle_minutes: int = setting(whole(0, 10**6), 120)
    servers: int = setting(whole(1, 10**5), 100)  # maximum number of running servers
    checks: int = setting(whole(0, 10**4), 3)  # official checks per hour, student and assignment; 0 for none
    checks_in_all: int = setting(whole(1, 10**4), 30)  # official checks in total
    # memory limit of each process (a server, a kernel) of a local server; 0 for no limit
    memory_gib: float = setting(MEMORY, 0)
    lti: Lti | None = table(Lti, None)  # noqa: RUF009  # people log in from this platform instead of with a password
    extra: str = setting(PATH, "")  # Python file that the hub loads last: authenticator, limits, TLS

    def conflicts(self) -> list[str]:
        """Describe settings that are valid alone and not together, or not on this machine."""
        result = []
        if self.spawner == "slurm" and self.slurm == "none":
            result.append("spawner = 'slurm' needs a Slurm: slurm = 'machine' or 'site'.")
        if self.extra and not Path(self.extra).is_file():
            result.append(f"extra = {self.extra!r}: no such file.")
        return result

    def address(self, part: int) -> str:
        """Return the address on loopback of the proxy (0), its API (1), Formgrader (3) or the check (4)."""
        return f"http://127.0.0.1:{self.port + part}"

    @property
    def public(self) -> str:
        """The URL for users."""
        return self.address(0)

    @property
    def hub(self) -> str:
        """The address of the hub itself."""
        return f"http://{self.hub_address}:{self.port + 2}"

    @property
    def class_page(self) -> str:
        """The URL of the class page, for instructors."""
        return f"{self.public}/services/{COURSE}/course/class"

    def database_url(self, name: str) -> str | None:
        """Return SQLAlchemy's URL of the database `hub` or `gradebook`, or None if SQLite is used."""
        if self.database == "sqlite":
            return None
        return f"postgresql+psycopg://{self.database.partition('://')[2]}/{name}"


def from_values(values: dict) -> Settings:
    """Return settings from plain values, as in TOML and JSON. Raises HubError, which names all faults."""
    return declared.made(Settings, values)


def from_toml(path: Path) -> Settings:
    """Return settings from a TOML file; missing keys keep their defaults."""
    return declared.from_toml(Settings, path)


def as_values(settings: Settings) -> dict:
    """Convert settings to plain values, the inverse of `from_values`."""
    return dataclasses.asdict(settings)
