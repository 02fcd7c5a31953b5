"""nanochat's tokenizer files: `tokenizer.pkl`, a pickled tiktoken Encoding, and `token_bytes.pt`'s numbers.

A pickle is a program, and one from outside may do anything. So none is run here: `pickletools` takes the file apart into
opcodes, those few that a pickled Encoding is made of are followed as data, and any other ends the reading. The one class that
may be named, tiktoken's Encoding, is compared by its name and never imported through the file.
"""

from __future__ import annotations

import json
import pickle
import pickletools
from pathlib import Path
from typing import Any

import tiktoken

from xsa.data.tokenizer import Tokenizer
from xsa.store.errors import UserError

PICKLE = "tokenizer.pkl"
_CLASS = "tiktoken.core Encoding"
_VALUES = frozenset(
    (
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
        "BININT",
        "BININT1",
        "BININT2",
    )
)
_FIELDS = ("mergeable_ranks", "name", "pat_str", "special_tokens")
_INSTEAD = (
    "Nothing of it was run. Give a folder with a tokenizer.json instead (--tokenizer; docs/nanochat.md has the few lines that "
    "write one where you trust the pickle)"
)


class _Mark:
    """What the opcode MARK puts on the stack."""


class _Encoding:
    """Stands for the class and, after NEWOBJ, for its object; it does nothing."""


class _Refused(Exception):
    """The pickle holds what no pickled Encoding holds; the message says what."""


def read_pickled_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a `tokenizer.pkl`. UserError where the file is cut short, or holds anything but an Encoding."""
    try:
        state = _followed(Path(path).read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} is missing; give the folder of nanochat's tokenizer by --tokenizer") from None
    except _Refused as error:
        raise UserError(f"{path} is not what nanochat writes: it {error}. {_INSTEAD}") from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise UserError(f"{path} is damaged or cut short ({error}); bring a whole copy back") from None
    return _tokenizer(state, path)


def write_pickled_tokenizer(path: Path, tokenizer_json: Path) -> Tokenizer:
    """Write the tokenizer of a `tokenizer.json` as nanochat stores its own; return it."""
    tokenizer = Tokenizer.load(tokenizer_json)
    special = json.loads(Path(tokenizer_json).read_text(encoding="utf-8"))["special_tokens"]
    ranks = {token: rank for rank, token in enumerate(tokenizer.ranks)}
    encoding = tiktoken.Encoding("rustbpe", pat_str=tokenizer.pattern, mergeable_ranks=ranks, special_tokens=special)
    Path(path).write_bytes(pickle.dumps(encoding))
    return tokenizer


def _followed(content: bytes) -> Any:
    """The state that a pickled Encoding is built from."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(content):
        name = opcode.name
        if name in ("PROTO", "FRAME"):
            continue
        if name == "STOP":
            return _built(stack.pop())
        if name in _VALUES:
            stack.append(argument)
        elif name == "MARK":
            stack.append(_Mark)
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "EMPTY_TUPLE":
            stack.append(())
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("SETITEM", "SETITEMS"):
            _set_items(stack, many=name == "SETITEMS")
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            _name_class(stack, argument)
        elif name == "NEWOBJ":
            _make_object(stack)
        elif name == "BUILD":
            state = stack.pop()
            if not isinstance(stack.pop(), _Encoding):
                raise _Refused("fills something that is no tiktoken Encoding")
            stack.append(("state", state))
        else:
            raise _Refused(f"has the opcode {name}")
    raise ValueError("it has no end")


def _set_items(stack: list[Any], many: bool) -> None:
    start = max(at for at, item in enumerate(stack) if item is _Mark) if many else len(stack) - 2
    items = stack[start + many :]
    del stack[start:]
    if not isinstance(stack[-1], dict):
        raise _Refused("sets items of something that is no mapping")
    stack[-1].update(zip(items[::2], items[1::2], strict=True))


def _name_class(stack: list[Any], argument: str | None) -> None:
    if argument is None:
        name = stack.pop()
        argument = f"{stack.pop()} {name}"
    if argument != _CLASS:
        raise _Refused(f"asks for {argument.replace(' ', '.')}, which is no part of a tokenizer")
    stack.append(_Encoding)


def _make_object(stack: list[Any]) -> None:
    arguments, cls = stack.pop(), stack.pop()
    if arguments != () or cls is not _Encoding:
        raise _Refused("makes an object that is no tiktoken Encoding")
    stack.append(_Encoding())


def _built(top: Any) -> Any:
    if not (isinstance(top, tuple) and len(top) == 2 and top[0] == "state"):
        raise _Refused("holds no tiktoken Encoding")
    return top[1]


def _tokenizer(state: Any, path: Path) -> Tokenizer:
    """The tokenizer of an Encoding's state, checked: ids without gaps, merge ranks first, special tokens after them."""
    if isinstance(state, str):
        raise UserError(
            f"{path} only names tiktoken's encoding {state!r}, and holds no vocabulary of its own. {_INSTEAD}"
        )
    if not isinstance(state, dict) or sorted(map(str, state)) != list(_FIELDS):
        raise UserError(f"{path} holds an Encoding without {', '.join(_FIELDS)}: another tiktoken wrote it. {_INSTEAD}")
    ranks, special, pattern = state["mergeable_ranks"], state["special_tokens"], state["pat_str"]
    for name, tokens, kind in (("mergeable_ranks", ranks, bytes), ("special_tokens", special, str)):
        if not isinstance(tokens, dict) or not all(
            isinstance(key, kind) and isinstance(id_, int) for key, id_ in tokens.items()
        ):
            raise UserError(f"{path}: {name} does not map {kind.__name__} to ids; bring nanochat's own file")
    ids = [*sorted(ranks.values()), *sorted(special.values())]
    whole = ids == list(range(len(ids))) and {bytes([byte]) for byte in range(256)} <= ranks.keys()
    if not whole or "<|bos|>" not in special or not isinstance(pattern, str):
        raise UserError(
            f"{path} holds a vocabulary that is not nanochat's: ids must run from 0 without gaps, first the {len(ranks)} merges, "
            "every byte among them, then the special tokens with <|bos|>"
        )
    try:
        return Tokenizer(sorted(ranks, key=ranks.get), pattern, sorted(special, key=special.get))
    except ValueError as error:
        raise UserError(f"{path}: its split pattern cannot be used ({error}); bring nanochat's own file") from None
