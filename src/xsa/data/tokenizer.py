"""Byte-pair encoding: trained with rustbpe, applied with tiktoken, stored as plain JSON.

Ids are the merge ranks, then the special tokens. The rule (nanochat's, from the GPT-4 family): split text by a pattern
with at most two digits together, then merge the most frequent pair, on ties the pair of the smallest ids.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import rustbpe
import tiktoken

from xsa.data.parquet import documents, shard_file
from xsa.store.errors import UserError
from xsa.store.files import sha256_file, write_json
from xsa.store.job import Job
from xsa.store.progress import Progress

PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
SPECIAL = (
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
)

# The splitting pattern looks ahead over blanks, and its engine gives up (by a panic) on about a million in a row.
_BLANKS = 100_000
_LONG_BLANK = re.compile(rf"\s{{{_BLANKS}}}")


class Tokenizer:
    """Text to ids and back. Special tokens never arise from text; ask for their ids by `special`."""

    def __init__(self, ranks: Sequence[bytes], pattern: str = PATTERN, special: Sequence[str] = SPECIAL):
        """ranks: the bytes of each mergeable token, its id its place. special: names of the tokens after them."""
        self.pattern, self.ranks = pattern, list(ranks)
        self._special = {name: len(self.ranks) + place for place, name in enumerate(special)}
        self._encoding = tiktoken.Encoding(
            "xsa",
            pat_str=pattern,
            mergeable_ranks={token: rank for rank, token in enumerate(self.ranks)},
            special_tokens=self._special,
        )
        self.bos = self._special["<|bos|>"]
        self.sha256: str | None = None

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Train on `texts` to `vocab_size` entries, special tokens included. Raises UserError when the texts give fewer."""
        trainer = rustbpe.Tokenizer()
        trainer.train_from_iterator(iter(texts), vocab_size - len(SPECIAL), pattern=PATTERN)
        ranks = [bytes(token) for token, _ in sorted(trainer.get_mergeable_ranks(), key=lambda pair: pair[1])]
        if len(ranks) + len(SPECIAL) < vocab_size:
            raise UserError(
                f"the text is too small for tokenizer.vocab_size = {vocab_size}: it gives {len(ranks)} tokens and "
                f"{len(SPECIAL)} special ones. Lower vocab_size to {len(ranks) + len(SPECIAL)} or less, or read more text"
            )
        return cls(ranks)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read `tokenizer.json`; UserError when it is not whole."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            ranks = [base64.b64decode(token, validate=True) for token in stored["mergeable_ranks_base64"]]
            special = sorted(stored["special_tokens"], key=stored["special_tokens"].get)
            pattern, ids = stored["pattern"], sorted(stored["special_tokens"].values())
        except FileNotFoundError:
            raise UserError(f"{path} does not exist; run the stage tokenizer") from None
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            raise UserError(f"{path} is no whole tokenizer.json ({error!r}); make it again") from None
        whole = len(set(ranks)) == len(ranks) and set(ranks) >= {bytes([byte]) for byte in range(256)}
        if not whole or ids != list(range(len(ranks), len(ranks) + len(ids))) or "<|bos|>" not in special:
            raise UserError(
                f"{path} is no whole tokenizer.json: every byte must be a token, tokens must differ, and the special "
                "ones, <|bos|> among them, must come after; make it again"
            )
        tokenizer = cls(ranks, pattern, special)
        tokenizer.sha256 = sha256_file(path)
        return tokenizer

    def save(self, path: Path, training: dict[str, Any] | None = None) -> None:
        """Write `tokenizer.json`; `training` says what it was trained on."""
        stored = {
            "pattern": self.pattern,
            "vocab_size": self.vocab_size,
            "special_tokens": self._special,
            "mergeable_ranks_base64": [base64.b64encode(token).decode("ascii") for token in self.ranks],
            "training": training or {},
        }
        write_json(path, stored)
        self.sha256 = sha256_file(path)

    @property
    def vocab_size(self) -> int:
        """Entries, special tokens included."""
        return len(self.ranks) + len(self._special)

    def special(self, name: str) -> int:
        """The id of a special token such as `<|assistant_end|>`."""
        return self._special[name]

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without `<|bos|>`; the names of special tokens in it are plain text."""
        if len(text) <= _BLANKS:
            return self._encoding.encode_ordinary(text)
        return [token for piece in _pieces(text) for token in self._encoding.encode_ordinary(piece)]

    def encode_batch(self, texts: list[str], threads: int = 1) -> list[list[int]]:
        """`encode` of each text."""
        if threads == 1 or any(len(text) > _BLANKS for text in texts):
            return [self.encode(text) for text in texts]
        return self._encoding.encode_ordinary_batch(texts, num_threads=threads)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become the replacement character."""
        return self._encoding.decode(list(ids))

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of ids."""
        return self._encoding.decode_bytes(list(ids))

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """int32 [vocab_size]: the number of bytes of each token, 0 for special tokens.

        Raw bytes, not the length of their text: a token that is no UTF-8 by itself would count three for each
        replacement character, and bits per byte would read too low.
        """
        lengths = [len(token) for token in self.ranks] + [0] * len(self._special)
        return np.array(lengths, dtype=np.int32)

    @property
    def dtype(self) -> np.dtype:
        """The smallest unsigned type that holds every id: uint16 or uint32."""
        return np.dtype(np.uint16 if self.vocab_size <= 1 << 16 else np.uint32)


def _pieces(text: str) -> list[str]:
    """The text, cut inside runs of very many blanks."""
    cuts = [0, *(found.end() for found in _LONG_BLANK.finditer(text)), len(text)]
    return [text[start:stop] for start, stop in pairwise(cuts)]


class TrainingText:
    """The text a tokenizer is trained on: documents of the shards in order, each cut to `doc_cap` characters.

    Reading ends after the document that passes `max_chars`. While it is iterated it counts documents, characters and a
    hash of what was read.
    """

    def __init__(self, shards: Sequence[Path], max_chars: int, doc_cap: int, progress: Progress | None = None):
        self.shards, self.max_chars, self.doc_cap = shards, max_chars, doc_cap
        self.progress = progress or Progress()
        self.documents = self.characters = 0
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[str]:
        for shard in self.shards:
            for _, texts in documents(shard):
                for text in texts:
                    text = text[: self.doc_cap]
                    self.documents += 1
                    self.characters += len(text)
                    self._hash.update(text.encode())
                    yield from _pieces(text) if len(text) > _BLANKS else [text]
                    if self.characters > self.max_chars:
                        return
                self.progress.step(min(self.characters, self.max_chars), self.max_chars, unit="character")

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def tokenizer(job: Job) -> dict[str, Any]:
    """Stage `tokenizer`: train on the first characters of the training shards; write tokenizer.json, token_bytes.json."""
    settings = job.settings
    text = TrainingText(
        [shard_file(folder) for folder in job.inputs_of("shards")], settings.max_chars, settings.doc_cap, job.progress
    )
    try:
        trained = Tokenizer.train(text, settings.vocab_size)
    except UserError as error:
        read = f"{text.characters:,} characters of {text.documents:,} documents"
        raise UserError(f"{error} ({read} were read)") from None
    counts = {"documents": text.documents, "characters": text.characters, "text_sha256": text.sha256}
    trained.save(job.out / "tokenizer.json", training=settings.model_dump(mode="json") | counts)
    write_json(job.out / "token_bytes.json", trained.token_bytes.tolist())
    job.progress.say(f"{trained.vocab_size} entries from {text.characters:,} characters")
    return counts
