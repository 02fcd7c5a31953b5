"""Reading every chat set through once, when it enters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xsa.data.chat import arc, gsm8k, humaneval, identity, mmlu, smoltalk, spellingbee
from xsa.store.errors import UserError
from xsa.store.progress import Progress

READERS: dict[str, Callable[[Path], Sequence]] = {
    "arc_easy/test.parquet": lambda folder: arc.items(folder, "arc_easy"),
    "arc_challenge/test.parquet": lambda folder: arc.items(folder, "arc_challenge"),
    "mmlu/test.parquet": mmlu.items,
    "mmlu/auxiliary_train.parquet": mmlu.conversations,
    "gsm8k/train.parquet": gsm8k.conversations,
    "gsm8k/test.parquet": gsm8k.items,
    "humaneval/test.parquet": humaneval.items,
    "smoltalk/train.parquet": smoltalk.conversations,
    "smoltalk/test.parquet": lambda folder: smoltalk.conversations(folder, "test"),
    "identity/identity_conversations.jsonl": identity.conversations,
    "spellingbee/words_alpha.txt": spellingbee.words,
}


def check_chatsets(folder: Path, progress: Progress) -> dict[str, Any]:
    """Rows of each file, and the files that are missing (whatever needs one says so by itself later).

    Raises UserError for a row that is not as its schema says, with file and row, and when no set is there at all.
    """
    rows: dict[str, int] = {}
    missing = []
    for done, (name, reader) in enumerate(READERS.items(), 1):
        path = mmlu.train_file(folder) if name.startswith("mmlu/auxiliary") else folder / name
        if not path.exists():
            missing.append(name)
            continue
        read = reader(folder)
        for _ in read:
            pass
        rows[path.relative_to(folder).as_posix()] = len(read)
        progress.step(done, len(READERS), unit="set", rows=len(read))
    if not rows:
        raise UserError(f"none of the chat sets is there; expected are {', '.join(READERS)}")
    if missing:
        progress.say(f"missing, and an error where they are needed: {', '.join(missing)}")
    return {"rows": rows, "missing": missing}
