"""Systemd units (hub at boot, repair every five minutes, nightly backup) and the file for logrotate."""

from __future__ import annotations

import sys
from pathlib import Path

NAME = "course-hub"


def unit_files(checkout: Path, state: Path, backups: Path) -> dict[str, str]:
    """Return {file: text} for /etc/systemd/system, and logrotate's. backups: folder of the nightly file."""
    hub = f"{sys.executable} -m cluster.staff.hub"
    fields = {"name": NAME, "checkout": checkout, "state": state, "backups": backups, "hub": hub}
    fields["mend"] = f"systemctl reload-or-restart {NAME}.service"
    return {f"{NAME}{what}": text.format(**fields) for what, text in UNITS.items()}


UNITS = {
    ".service": """\
[Unit]
Description=The course on a JupyterHub
Wants=network-online.target
After=network-online.target nss-user-lookup.target
RequiresMountsFor={checkout} {state}

[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory={checkout}
ExecStart={hub} start --state {state}
ExecReload={hub} start --state {state}
ExecStop={hub} stop --state {state}
TimeoutStartSec=15min
TimeoutStopSec=3min
TasksMax=infinity
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
""",
    "-watch.service": """\
[Unit]
Description=Repair the course's hub if a part of it is dead

[Service]
Type=oneshot
WorkingDirectory={checkout}
# Status 1 means that something died, and 3 that the hub was stopped on purpose. Its processes belong to
# {name}.service, which is started if it is not active (after a failed start).
ExecStart=/bin/sh -c '{hub} status --state {state}; [ $? -ne 1 ] || {mend}'
""",
    "-watch.timer": """\
[Unit]
Description=Repair the course's hub if a part of it is dead

[Timer]
OnBootSec=15min
OnUnitInactiveSec=5min

[Install]
WantedBy=timers.target
""",
    "-backup.service": """\
[Unit]
Description=A backup of the course's gradebook and submissions
RequiresMountsFor={backups}
# To get mail about a failed backup, add a unit that sends it.
#OnFailure=mail-to-admin@%n.service

[Service]
Type=oneshot
WorkingDirectory={checkout}
ExecStartPre=/bin/mkdir -p -m 700 {backups}
# This waits for a running grading; if that takes too long, the unit fails (systemctl --failed).
ExecStart=/bin/sh -c '{hub} backup --wait 240 --state {state} {backups}/$$(date +%%F-%%H%%M).tar.gz'
# Backups are kept for a month.
ExecStartPost=/usr/bin/find {backups} -maxdepth 1 -name '????-??-??*.tar.gz' -mtime +31 -delete
""",
    ".logrotate": """\
{state}/logs/*.out {{
    weekly
    maxsize 100M
    rotate 8
    compress
    missingok
    notifempty
    copytruncate
}}
""",
    "-backup.timer": """\
[Unit]
Description=A backup of the course's gradebook and submissions

[Timer]
OnCalendar=*-*-* 03:30
RandomizedDelaySec=10min
Persistent=true

[Install]
WantedBy=timers.target
""",
}
