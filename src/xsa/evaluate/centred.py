"""Centred accuracy, its mean over tasks, and how sure that mean is.

Centred: (a − b)/(1 − b), with b the accuracy of guessing; 0 is chance, 1 is perfect, negatives are kept. CORE (DCLM,
Li et al. 2024, arXiv 2406.11794) and nanochat's ChatCORE are plain means of it over tasks.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.files import sha256_file

TABLES = Path(__file__).parent / "baselines"
# The tables are frozen: results are named by them. Their hashes stand here so that an edit is a change of code too.
SHA256 = {
    "v1": "7574690dbc6536c80a3077cd9eaa560698b38d20b909dcd26fae8da4d9aedf6a",
    "v2": "10ae9d50498eb89fbbb7adf138a1db6c16c8903f3934ef7a98bda8da7b867da9",
    "chat6": "95bcb905c258b7d9aa5d5c93bf9e7c9a9c596afce0a78401516081731bb73696",
    "chat5": "9f3cfd2f17bd6910bfa0250dae1c569174b457e6534f793dea3eda88062f718e",
    "published_items": "c3ba2ff82ee4f860a596e684aad2b65954404318afaf735eeab1b7b7ed4b14a8",
}
Z95 = 1.959963984540054  # 97.5 % point of the normal distribution


def centre(accuracy: float, baseline: float) -> float:
    """(accuracy − baseline)/(1 − baseline), both as shares of 1."""
    return (accuracy - baseline) / (1.0 - baseline)


@dataclass(frozen=True)
class TaskScore:
    """One task's outcome: `correct` of `items`, against the accuracy of guessing."""

    items: int
    correct: int
    baseline: float

    @property
    def accuracy(self) -> float:
        return self.correct / self.items

    @property
    def centred(self) -> float:
        return centre(self.accuracy, self.baseline)

    @property
    def standard_error(self) -> float:
        """Of the centred score: binomial, √(a(1 − a)/n)/(1 − b). Items are taken to be drawn independently.

        Where no item or every item is right this is 0, which says less than it seems: such a task adds nothing to the
        interval of the mean.
        """
        return math.sqrt(self.accuracy * (1.0 - self.accuracy) / self.items) / (1.0 - self.baseline)


def aggregate(scores: dict[str, TaskScore]) -> dict[str, float | list[float]]:
    """Mean of the centred scores, its standard error over the choice of items, and the 95 % normal interval.

    The tasks are fixed, only their items are a sample: the error is √Σ se²/number of tasks.
    """
    assert scores, "no task to take the mean of"
    mean = math.fsum(score.centred for score in scores.values()) / len(scores)
    error = math.sqrt(math.fsum(score.standard_error**2 for score in scores.values())) / len(scores)
    return {"mean": mean, "standard_error": error, "interval": [mean - Z95 * error, mean + Z95 * error]}


def published_items() -> dict[str, int]:
    """Number of items of each task's published set, CORE and chat tasks together."""
    with open(_frozen("published_items"), encoding="utf-8", newline="") as handle:
        return {row["label"]: int(row["items"]) for row in csv.DictReader(handle)}


def read_baselines(path: Path, label: str, percent: str) -> dict[str, float]:
    """Accuracies of guessing by task, as shares of 1, from a CSV file with the named columns (the second in percent).

    Raises UserError, naming file and line, for a missing column or a number outside [0, 100).
    """
    baselines = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            missing = [column for column in (label, percent) if column not in (reader.fieldnames or [])]
            if missing:
                raise UserError(
                    f"{path}: no column {missing[0]!r}; its columns are {', '.join(reader.fieldnames or [])}"
                )
            for row in reader:
                try:
                    value = float(row[percent]) / 100
                except (TypeError, ValueError):
                    value = math.nan
                if not 0 <= value < 1:
                    raise UserError(
                        f"{path}, line {reader.line_num}: {percent} of {row[label]} is {row[percent]!r}; "
                        "it must be a number of percent from 0 to below 100"
                    )
                baselines[row[label]] = value
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is not a CSV file in UTF-8 ({error}); bring a whole copy back") from None
    return baselines


def baseline_table(name: str, bundle_csv: Path | None) -> tuple[dict[str, float], Path]:
    """The table called `name` (`bundle`, `v1`, `v2`) and the file that it comes from.

    `v1` is the table of nanochat's bundle (DCLM's eval_meta_data_v1.csv), `v2` DCLM's later one: they differ in
    commonsense_qa (20 and 40.3 %), agi_eval_lsat_ar (20 and 25 %), bigbench_language_identification (9.1 and 25 %).
    `bundle` is whatever the bundle at hand brings in `bundle_csv`.
    """
    if name == "bundle":
        return read_baselines(bundle_csv, "Eval Task", "Random baseline"), bundle_csv
    path = _frozen(name)
    return read_baselines(path, "label", "baseline"), path


def chat_table(name: str) -> dict[str, float]:
    """Tasks and their accuracies of guessing of a form of ChatCORE.

    `chat6` is nanochat's at commit dc54a1a, `chat5` its later one (July 2026), which leaves SpellingBee out.
    """
    return read_baselines(_frozen(name), "label", "baseline")


def _frozen(name: str) -> Path:
    path = TABLES / f"{name}.csv"
    if sha256_file(path) != SHA256[name]:
        raise UserError(
            f"{path} was edited; it is one of this project's named tables. Bring it back, and give a new table a new name"
        )
    return path
