"""One check of `xsa doctor`, and the commands that checks ask."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

OK, FAILED, WARNING, SKIPPED = "ok", "failed", "warning", "skipped"


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, how it stands (OK, FAILED, WARNING, SKIPPED), what was found, and what to do."""

    name: str
    state: str
    found: str
    advice: str = ""


class Shell:
    """Commands of the machine; none of them may take long, and none may fail the doctor."""

    def there(self, name: str) -> bool:
        """Whether a command is on the PATH."""
        return shutil.which(name) is not None

    def said(self, *command: str, timeout: float = 60, given: str | None = None) -> tuple[int, str]:
        """Exit code and all that a command says; 127 where it cannot be run."""
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=timeout, input=given)
        except (OSError, subprocess.SubprocessError) as error:
            return 127, str(error)
        return run.returncode, (run.stdout + run.stderr).strip()
