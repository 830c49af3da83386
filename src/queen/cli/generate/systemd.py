"""Units for systemd: a server, and workers by name."""

from typing import Final, Literal

from queen.cli.generate import deployment as d

Unit = Literal["server", "worker"]

_SANDBOX: Final = """\
DynamicUser=yes
UMask=0077
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
"""
"""No root, no other user's files, no devices, no capabilities."""
_SERVER: Final = """\
# /etc/systemd/system/queen.service
# Settings, also secrets, are in /etc/queen/queen.env (mode 0600), one NAME=value per line.
[Unit]
Description=Queen server
Wants=network-online.target
After=network-online.target postgresql.service

[Service]
Type=exec
ExecStart={queen} serve
EnvironmentFile=/etc/queen/queen.env
# For the file buffer: FILE_BUFFER_DIR={buffer}
StateDirectory=queen
StateDirectoryMode=0700
Restart=on-failure
RestartSec=2s
# The server drains. Only its main process gets the signal, and it stops the others.
KillMode=mixed
TimeoutStopSec={stop}s
LimitNOFILE=65536
{sandbox}ProcSubset=pid
MemoryDenyWriteExecute=yes

[Install]
WantedBy=multi-user.target
"""
_WORKER: Final = """\
# /etc/systemd/system/queen-worker@.service, started as queen-worker@NAME
# /etc/queen/worker-NAME.env (mode 0600) has QUEEN_BASE_URL, QUEEN_TOKEN, and JOBS=MODULE:app.
[Unit]
Description=Queen worker %i
Wants=network-online.target
After=network-online.target queen.service

[Service]
Type=exec
ExecStart={queen} worker ${{JOBS}} --shutdown-timeout {shutdown}s
EnvironmentFile=/etc/queen/worker-%i.env
# The directory of your application.
WorkingDirectory=/srv/%i
Restart=on-failure
RestartSec=2s
# The worker drains. Only its main process gets the signal, and it stops the others.
KillMode=mixed
TimeoutStopSec={stop}s
LimitNOFILE=65536
{sandbox}
[Install]
WantedBy=multi-user.target
"""


def unit(kind: Unit, queen: str) -> str:
    """Return a unit file. ``queen`` is the path of the command."""
    if kind == "server":
        return _SERVER.format(queen=queen, buffer=d.BUFFER, stop=d.STOP_SECONDS, sandbox=_SANDBOX)
    return _WORKER.format(
        queen=queen,
        shutdown=d.WORKER_SHUTDOWN_SECONDS,
        stop=d.WORKER_STOP_SECONDS,
        sandbox=_SANDBOX,
    )
