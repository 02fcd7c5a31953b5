"""What a run prints where a job of it fails: why, its last words and where its logs are. Snakemake itself prints whole logs,
which are thousands of lines for a training, with commands of its own that no user can read for one on a cluster.
"""

from __future__ import annotations

import logging
import re
import socket
import textwrap
import time
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import click

from xsa.study.reuse import Key
from xsa.study.stages import STAGES
from xsa.study.states import State, last_lines
from xsa.study.status import endings, standing
from xsa.study.watch import CLOCKS_SECONDS

LAST_LINES, TOLD = 12, 4
# From here on a message of Snakemake's executor only says that there are logs, or repeats the command it submitted by.
NO_MORE = re.compile(r"For further error details|sbatch call:")
# What Snakemake says of itself in the log of a submitted job.
OWN_WORDS = re.compile(
    r"\s|SNAKEMAKE$|=+$|\[.*\]$|Building DAG|Using shell|Provided |Rules claiming|Select jobs|Execute \d|Job \d+:|Reason:|"
    r"Error in rule|Shutting down|Exiting because|Will exit|Storing output|Elapsed time|WorkflowError:|At least one job|"
    r"RuleException:|CalledProcessError in file|Command 'set -euo"
)


class FailedJobs(logging.Filter):
    """A filter of Snakemake's log that puts its own words in the place of an error of a job.

    `ended` gives what a job last said of itself; None where it said nothing.
    """

    def __init__(self, ended: Callable[[Key], State | None]):
        super().__init__()
        self._ended = ended
        self._silent: dict[Key, list[str]] = {}
        self._begun: dict[int, float] = {}
        # What the executor says of the group whose jobs are being told, and whether it was never submitted.
        self._group_said, self._never = "", False

    def hear(self, executor: Any) -> None:
        """Hear what an executor says of a group of jobs that fails, for Snakemake drops it."""
        before = executor.print_job_error

        def print_job_error(job_info: Any, msg: str | None = None, **kwargs: Any) -> None:
            if job_info.job.is_group():
                self._group_said, self._never = msg or "", bool(msg) and job_info.external_jobid is None
            try:
                before(job_info, msg, **kwargs)
            finally:
                self._group_said, self._never = "", False

        executor.print_job_error = print_job_error

    @property
    def silent_places(self) -> Set[Key]:
        """The results whose last job said nothing: what their state folders say is of an earlier one."""
        return self._silent.keys()

    def silent(self) -> list[str]:
        """Lines on results whose last job said nothing, as it was told when it failed; of many, on the first few."""
        told = list(self._silent.values())
        lines = [line for lines in told[:TOLD] for line in lines]
        return [*lines, *([f"… and {len(told) - TOLD} more jobs that said nothing"] if len(told) > TOLD else [])]

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true but for jobs of a group that did what they had to; the record is changed in place."""
        try:
            return self._told(record)
        except Exception:  # whatever it is, it must not hide the error that was to be told
            return True

    def _told(self, record: logging.LogRecord) -> bool:
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_info":
            self._begun[record.jobid] = time.time()
        elif event == "group_error":
            lines = _of_group(record, self._group_said, self._never)
            _say(record, lines)
            if self._never:
                self._silent["group", str(record.groupid)] = lines
        elif event == "job_error" and record.rule_name in STAGES:
            output = Path(record.output[0])
            if record.indent and (output.exists() or self._never):
                return False
            _say(record, self._of_job(record, (record.rule_name, output.parent.name)))
        return True

    def _of_job(self, record: logging.LogRecord, place: Key) -> list[str]:
        lines = [f"Job {record.jobid} failed: {place[0]} {place[1]}"]
        lines += _indented(NO_MORE.split(str(record.rule_msg or ""))[0].strip())
        logs = [str(path).partition(" (")[0] for path in record.log]
        state, submitted = self._ended(place), (record.aux or {}).get("external_jobid")
        self._silent.pop(place, None)
        if state is None or not self._is_of(state, record, submitted):
            # The environment may be missing where it ran; what could not be submitted ran nowhere.
            ran = submitted or record.indent or not record.rule_msg
            begun = self._begun.get(record.jobid, 0.0) - CLOCKS_SECONDS
            lines += [line for path in reversed(logs if ran else []) for line in _end_of(path, begun)]
            self._silent[place] = lines
            return lines
        told = endings({place: state}) or [f"{standing(state)}; it has not come to its end yet"]
        lines += [line for text in told for line in _indented(click.unstyle(text))]
        return [*lines, *(f"    SLURM's log: {path}" for path in logs[1:] if submitted)]

    def _is_of(self, state: State, record: logging.LogRecord, submitted: str | None) -> bool:
        """Whether a state is the word of the job that has failed, not of an earlier try at the same result."""
        if submitted and state.slurm_job:
            return state.slurm_job == str(submitted)
        if record.rule_msg and not submitted and not record.indent:
            return False  # it was never submitted
        skew = 0.0 if state.host == socket.gethostname() else CLOCKS_SECONDS
        last = state.ended or state.started
        return last is None or last >= self._begun.get(record.jobid, 0.0) - skew


def _say(record: logging.LogRecord, lines: list[str]) -> None:
    record.msg, record.args, record.event = "\n".join([time.strftime("[%c]"), *lines]), (), None


def _of_group(record: logging.LogRecord, said: str, never: bool) -> list[str]:
    rules, count = sorted({info["rule_name"] for info in record.job_error_info}), len(record.job_error_info)
    jobs = f"{count} job{'s' if count > 1 else ''}"
    what = f"{jobs} could not be submitted" if never else f"Of {jobs} submitted together some failed"
    lines = [f"{what}: {', '.join(rules)}", *_indented(NO_MORE.split(said)[0].strip())]
    return [*lines, *(line for path in record.aux_logs for line in _end_of(path))]


def _end_of(path: str, since: float = 0.0) -> list[str]:
    """The last lines of a log that are not Snakemake's; nothing of one that was last written before `since`."""
    try:
        old = Path(path).stat().st_mtime < since
    except OSError:
        old = False
    said = "" if old else last_lines(Path(path), 500, 65_536) or ""
    said = said.splitlines()
    said = [line for line in said if not OWN_WORDS.match(line)][-LAST_LINES:]
    return [f"    the end of {path}:", *_indented("\n".join(said), 8)] if said else [f"    {path} says nothing"]


def _indented(text: str, width: int = 4) -> list[str]:
    return textwrap.indent(text, " " * width).splitlines()
