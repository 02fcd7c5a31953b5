"""What a training run writes down: one line a step, one line a look at the validation rows, and how long steps took.

Where the attention diagnostics are asked for along training, theirs too: a line a layer and measure of each such step.

Losses are raw means over the whole global batch, and tokens are those seen after the update; smoothing is left to
whoever draws a figure. Times live in a table of their own, for they differ from run to run and the log must not; beside
them the loss of the last micro-batch, which depends on the cut, so that the report can draw what a log of it would have drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_F64, _I64 = pa.float64(), pa.int64()
SCHEMAS = {
    "log": pa.schema(
        [("step", _I64), ("tokens", _I64)]
        + [(name, _F64) for name in ("loss", "lr_multiplier", "momentum", "weight_decay", "grad_norm")]
    ),
    "validation": pa.schema([("step", _I64), ("tokens", _I64), ("bpb", _F64)]),
    "timing": pa.schema([("step", _I64), ("seconds", _F64), ("last_micro_loss", _F64)]),
    "alignment": pa.schema(
        [("step", _I64), ("tokens", _I64), ("layer", _I64), ("measure", pa.string())]
        + [(name, _F64) for name in ("mean", "lowest", "highest")]  # over heads
    ),
}
SELDOM = ("alignment",)  # tables that are no file while they are empty


@dataclass
class Log:
    """The tables of a run, as lists of rows in step order."""

    log: list[dict] = field(default_factory=list)
    validation: list[dict] = field(default_factory=list)
    timing: list[dict] = field(default_factory=list)
    alignment: list[dict] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """`log.parquet`, `validation.parquet`, `timing.parquet`, and `alignment.parquet` where it has rows; equal rows give equal bytes."""
        for name, schema in SCHEMAS.items():
            rows = getattr(self, name)
            if rows or name not in SELDOM:
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{name}.parquet")

    @classmethod
    def read(cls, folder: Path) -> Log:
        """The tables that `write` left in `folder`."""
        paths = {name: folder / f"{name}.parquet" for name in SCHEMAS}
        return cls(
            **{
                name: pq.read_table(path).to_pylist()
                for name, path in paths.items()
                if name not in SELDOM or path.exists()
            }
        )

    def median_seconds(self) -> float:
        """Median time of a step; half the steps were quicker. Compilation and saved states hardly move it."""
        seconds = sorted(row["seconds"] for row in self.timing)
        return seconds[len(seconds) // 2]
