"""One POSIX sh script that runs the commands of all sources on a host and prints what they say, framed.

It is sent over stdin to `sh -s`, or run by hand; `advisor.read.collection` reads what it prints. It writes no file and
leaves no process behind. Each command has its time limit, the script as a whole has one too. It needs no more of a
host than sh and, where there is one, `timeout`.

A line that begins with the mark of the run (`@advisor.TIME.PID`) is the frame:

    @advisor.1700000000.42 open 1 node01 1700000000      version, host, time
    @advisor.1700000000.42 run ibstat 1 1700000001 'ibstat' 'mlx5_0'    source, reading, start, command
    ...                                                  what it prints
    @advisor.1700000000.42 stderr                        then its error output
    @advisor.1700000000.42 exit 0 1700000002             status and end; 124 and 137: ended at the limit
    @advisor.1700000000.42 not ibstat missing 'ibstat'   not run: missing, root, late
    @advisor.1700000000.42 close 1700000009
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from advisor.sources import all_sources
from advisor.sources.base import Command

# Read at the start and at the end, so that rates can be told from totals.
COUNTERS = ("ethtool-stats", "net-sysfs", "nstat", "perfquery", "rdma-counters")
WHOLE_SECONDS = 120  # of the whole script, after which it starts nothing more
MARK = "@advisor."

_HEAD = """\
# Collected by Cluster Advisor. Reads only: changes nothing, writes no file, makes no traffic.
# By hand: sh THIS_FILE > node01.txt   then: advisor diagnose node01.txt
LC_ALL=C
export LC_ALL
PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin"
now() { date +%s; }
# $1 seconds, then the command. Without `timeout` a watcher ends the command, and itself within a second.
if command -v timeout >/dev/null 2>&1 && timeout -k 1 5 true >/dev/null 2>&1; then
  limited() { timeout -k 1 "$@"; }
else
  limited() {
    most=$1
    shift
    "$@" &
    child=$!
    (
      i=0
      while [ "$i" -lt "$most" ]; do
        kill -0 "$child" || exit
        sleep 1
        i=$((i + 1))
      done
      kill -9 "$child"
    ) </dev/null >/dev/null 2>&1 &
    wait "$child"
  }
fi
quoted() { for word in "$@"; do printf " '%s'" "$(printf '%s' "$word" | sed "s/'/'\\\\\\\\''/g")"; done; echo; }
# $1 source, $2 reading, $3 root?, $4 seconds, then the command
run() {
  source=$1 reading=$2 root=$3 limit=$4
  shift 4
  why=
  if ! command -v "$1" >/dev/null 2>&1; then why=missing
  elif [ "$root" = 1 ] && [ "$(id -u)" != 0 ]; then why=root
  elif [ "$(now)" -ge "$end" ]; then why=late
  fi
  if [ -n "$why" ]; then
    printf '%s not %s %s' "$mark" "$source" "$why"
    quoted "$@"
    return
  fi
  printf '%s run %s %s %s' "$mark" "$source" "$reading" "$(now)"
  quoted "$@"
  # The error output is kept in a variable while the output goes straight through: no file is needed to part them.
  errors=$(limited "$limit" "$@" </dev/null 2>&1 >&3 3>&-)
  status=$?
  printf '\\n%s stderr\\n%s\\n%s exit %s %s\\n' "$mark" "$errors" "$mark" "$status" "$(now)"
}
interfaces() {
  for device in /sys/class/net/*/device; do
    [ -e "$device" ] || continue
    device=${device%/device}
    echo "${device##*/}"
  done
}
"""


@dataclass(slots=True, frozen=True)
class Step:
    """A command of a source that a passive collection runs; reading: 1, or 2 for counters read again at the end."""

    source: str
    command: Command
    reading: int = 1


def steps() -> Iterator[Step]:
    """What is run, in this order; nothing that makes traffic, disturbs a job or needs a peer."""
    once = [
        Step(source.id, command)
        for source in all_sources()
        for command in source.commands
        if not (command.traffic or command.disturbs or any("{peer}" in word for word in command.argv))
    ]
    counters = [step for step in once if step.source in COUNTERS]
    yield from counters
    yield from (step for step in once if step.source not in COUNTERS)
    yield from (Step(step.source, step.command, 2) for step in counters)


# Variables that hold passwords and keys stay on the host.
_ENVIRONMENT = ("sh", "-c", "env | grep -viE '^[a-z0-9_]*(token|secret|passw|_key|credential)[a-z0-9_]*='")


def _line(step: Step) -> str:
    """The step as sh; for each interface of the host where the command names one."""
    if step.command.argv == ("env",):
        step = replace(step, command=replace(step.command, argv=_ENVIRONMENT))
    fixed = f"run {step.source} {step.reading} {int(step.command.root)} {math.ceil(step.command.timeout)}"
    words = " ".join('"$interface"' if word == "{interface}" else shlex.quote(word) for word in step.command.argv)
    if "{interface}" in step.command.argv:
        return f"for interface in $(interfaces); do {fixed} {words}; done"
    return f"{fixed} {words}"


def script(whole_seconds: int = WHOLE_SECONDS) -> str:
    """The script as text. It ends itself: after `whole_seconds` it starts no further command.

    The last line starts it, so that a script that arrives only in part does nothing.
    """
    body = "\n".join(f"  {_line(step)}" for step in steps())
    return f"""{_HEAD}collect() {{
  mark={MARK}$(now).$$
  end=$(($(now) + {whole_seconds}))
  exec 3>&1
  echo "$mark open 1 $(uname -n) $(now)"
{body}
  echo "$mark close $(now)"
}}
collect
"""
