"""Reading a chat set's file row by row; what is wrong is said with file and row."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from xsa.store.errors import UserError

T = TypeVar("T")
MEND = "bring the published file, or take the row out"


class BadRowError(ValueError):
    """A row that is not as its set's schema says; the message says which field and why."""


class ParquetRows(Sequence[T], Generic[T]):
    """The rows of a parquet file as `parse(row, index)` gives them, one at a time.

    columns: what the file must have. unnest: a struct column whose fields may stand for the columns.
    Raises UserError: no file, not readable, a column missing; on access, a row that `parse` refuses.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        parse: Callable[[dict[str, Any], int], T],
        unnest: str | None = None,
    ):
        self.path, self._parse = Path(path), parse
        table = _read(self.path)
        if unnest in table.column_names and pa.types.is_struct(table.schema.field(unnest).type):
            table = pa.Table.from_struct_array(table.column(unnest))
        missing = [name for name in columns if name not in table.column_names]
        if missing:
            raise UserError(
                f"{path} has no column {missing[0]!r}; its columns are {', '.join(table.column_names) or 'none'}, "
                f"needed are {', '.join(columns)}. Bring the published file"
            )
        self._columns = {name: table.column(name) for name in columns}
        self._length = table.num_rows
        if not self._length:
            raise UserError(f"{path} has no rows; bring the published file")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < self._length:
            raise IndexError(index)
        row = {name: column[index].as_py() for name, column in self._columns.items()}
        try:
            return self._parse(row, index)
        except BadRowError as error:
            raise UserError(f"{self.path}, row {index} (counted from 0): {error}; {MEND}") from None


class LineRows(Sequence[T], Generic[T]):
    """The lines of a JSONL file as `parse(value, index)` gives them; blank lines are passed over. Errors as ParquetRows."""

    def __init__(self, path: Path, parse: Callable[[Any, int], T]):
        self.path, self._parse = Path(path), parse
        lines = read_text(self.path).splitlines()
        self._lines = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        if not self._lines:
            raise UserError(f"{path} has no lines; bring the published file")

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> T:
        number, line = self._lines[index]
        try:
            return self._parse(json.loads(line), index)
        except json.JSONDecodeError as error:
            raise UserError(f"{self.path}:{number}: not valid JSON ({error.msg}); {MEND}") from None
        except BadRowError as error:
            raise UserError(f"{self.path}:{number}: {error}; {MEND}") from None


def text(row: dict[str, Any], field: str) -> str:
    """A field that must be text (BadRowError)."""
    value = row.get(field)
    if not isinstance(value, str):
        raise BadRowError(f"field {field!r} must be text, it is {'missing' if value is None else repr(value)[:60]}")
    return value


def texts(value: Any, field: str, least: int = 1) -> list[str]:
    """A list of at least `least` texts (BadRowError)."""
    if not isinstance(value, list) or len(value) < least or not all(isinstance(part, str) for part in value):
        raise BadRowError(f"field {field!r} must be a list of {least} texts or more, it is {repr(value)[:60]}")
    return value


def messages(value: Any) -> list[dict[str, str]]:
    """A list of messages: perhaps one of the system, then user and assistant by turns, each with text (BadRowError)."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise BadRowError(f"the messages must be a list of {{role, content}}, they are {repr(value)[:60]}")
    roles = [text(message, "role") for message in value]
    for message in value:
        text(message, "content")
    turns = roles[1:] if roles[:1] == ["system"] else roles
    if len(turns) < 2:
        raise BadRowError("a conversation needs a message of the user and one of the assistant")
    for number, role in enumerate(turns):
        expected = ("user", "assistant")[number % 2]
        if role != expected:
            raise BadRowError(f"message {number + len(roles) - len(turns)} is of {role!r}, expected {expected!r}")
    return [{"role": message["role"], "content": message["content"]} for message in value]


def read_text(path: Path) -> str:
    """A text file (UserError when it is missing or no UTF-8)."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); bring the published file") from None


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} is no readable parquet file ({error}); bring the published file") from None


def _missing(path: Path) -> UserError:
    return UserError(f"{path} is missing; the chat sets need it, in the published layout <set>/<split>.parquet")
