"""The stage `report`: a study's page beside its tables and figures."""

from __future__ import annotations

from xsa.report.page import write_report
from xsa.store.job import Job


def report(job: Job) -> None:
    """Write report.html, tables/ and figures/ from the analysis that the job reads."""
    write_report(job.input("analyse"), job.out)
