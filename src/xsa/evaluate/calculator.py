"""The calculator that a chat model may call: four operations on numbers, and counting letters in a word.

A small parser, so that nothing a model writes is ever evaluated as code. The rules are those of nanochat's tool at
commit dc54a1a: commas are dropped first (so `1,234+1` is 1235, and a comma inside quotes is lost too); arithmetic has
digits, `+ - * / // . ( )` and blanks, with Python's types and rounding; of strings only `'word'.count('w')` exists.
Everything else has no value.

Where it differs from nanochat, whose tool hands the text to Python once it has looked harmless:
- A word is not refused for containing `file`, `open`, `dir`, `input` or the like: that list protects an evaluation
  which does not happen here, and it would leave letters of words such as "profile" uncounted.
- Chains (`'a'.upper().count('A')`), joined literals (`'a' 'b'`), tuples (`()`) and results that are infinite have no value.
- Limits: 1000 characters, 50 levels of brackets and signs, 300 digits of a whole number.
"""

from __future__ import annotations

import math

MAX_CHARACTERS = 1000
MAX_DEPTH = 50
MAX_WHOLE = 10**300
_DIGITS = frozenset("0123456789")
_ARITHMETIC = _DIGITS | frozenset("+-*/.() ")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'\"()._ ")


def calculate(expression: str) -> int | float | None:
    """The value of `expression`, or None where it has none (malformed, division by zero, beyond the limits)."""
    expression = expression.replace(",", "")
    if len(expression) > MAX_CHARACTERS:
        return None
    try:
        if _ARITHMETIC.issuperset(expression):
            return _Parser(expression).arithmetic()
        if _LETTERS.issuperset(expression):
            return _Parser(expression).count()
    except (_NoValue, ZeroDivisionError, OverflowError):
        pass
    return None


class _NoValue(Exception):
    """The text is no expression of this calculator."""


class _Parser:
    """Recursive descent over one expression."""

    def __init__(self, text: str):
        self.text, self.at, self.depth = text.rstrip(" "), 0, 0

    def arithmetic(self) -> int | float:
        value = self._sum()
        self._end()
        return value

    def count(self) -> int:
        word = self._word()
        self._expect(".")
        self._expect("count")
        self._expect("(")
        letters = self._word()
        self._expect(")")
        self._end()
        return word.count(letters)

    def _sum(self) -> int | float:
        value = self._product()
        while sign := self._accept("+", "-"):
            right = self._product()
            value = _checked(value + right if sign == "+" else value - right)
        return value

    def _product(self) -> int | float:
        value = self._signed()
        while sign := self._accept("**", "//", "*", "/"):
            if sign == "**":
                raise _NoValue
            right = self._signed()
            value = _checked(value * right if sign == "*" else value / right if sign == "/" else value // right)
        return value

    def _signed(self) -> int | float:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _NoValue
        sign = self._accept("+", "-")
        if sign:
            value = self._signed()
            value = -value if sign == "-" else value
        elif self._accept("("):
            value = self._sum()
            self._expect(")")
        else:
            value = self._number()
        self.depth -= 1
        return value

    def _number(self) -> int | float:
        self._blanks()
        start = self.at
        while self.at < len(self.text) and (self.text[self.at] in _DIGITS or self.text[self.at] == "."):
            self.at += 1
        literal = self.text[start : self.at]
        if "." in literal:
            if literal.count(".") > 1 or literal == ".":
                raise _NoValue
            return _checked(float(literal))
        if not literal or (literal[0] == "0" and literal.strip("0")):  # like Python: 012 is no number, 00 is
            raise _NoValue
        return _checked(int(literal)) if len(literal) <= 301 else _checked(MAX_WHOLE)

    def _word(self) -> str:
        if self._accept("("):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise _NoValue
            word = self._word()
            self._expect(")")
            return word
        quote = self._accept("'", '"')
        end = self.text.find(quote, self.at) if quote else -1
        if end < 0:
            raise _NoValue
        word, self.at = self.text[self.at : end], end + 1
        return word

    def _blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def _accept(self, *symbols: str) -> str | None:
        """Step over the first of `symbols` that stands here."""
        self._blanks()
        for symbol in symbols:
            if self.text.startswith(symbol, self.at):
                self.at += len(symbol)
                return symbol
        return None

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            raise _NoValue

    def _end(self) -> None:
        if self.at != len(self.text):
            raise _NoValue


def _checked(value: int | float) -> int | float:
    """`value`, unless it is beyond the limits."""
    if (isinstance(value, int) and abs(value) >= MAX_WHOLE) or (isinstance(value, float) and not math.isfinite(value)):
        raise _NoValue
    return value
