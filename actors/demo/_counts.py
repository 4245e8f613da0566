"""The count itself: from a text to numbers. Pure."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Mapping

import attrs

TOKENS_OF_A_FILE = 16
"""How many of a file's tokens are kept: the most frequent ones."""

MOST_TOKENS = 100_000
"""Beyond so many different tokens in one sum, the rarer half is forgotten."""

_WORD = re.compile(r"\w+")
_FUNCTION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+\w", re.MULTILINE)


@attrs.frozen
class Counts:
    """What a text holds."""

    lines: int
    words: int
    functions: int
    tokens: Mapping[str, int]
    """How often each word occurs that begins with a letter and has at least four characters."""


@attrs.define
class Sum:
    """Counts of several texts, added up."""

    lines: int = 0
    words: int = 0
    functions: int = 0
    tokens: Counter[str] = attrs.field(factory=Counter[str])

    def add(self, counts: Counts) -> None:
        self.lines += counts.lines
        self.words += counts.words
        self.functions += counts.functions
        self.tokens.update(counts.tokens)
        if len(self.tokens) > MOST_TOKENS:
            self.tokens = Counter(dict(most_frequent(self.tokens, MOST_TOKENS // 2)))

    def of_a_file(self) -> Counts:
        """The sum, with the most frequent tokens only."""
        tokens = dict(most_frequent(self.tokens, TOKENS_OF_A_FILE))
        return Counts(self.lines, self.words, self.functions, tokens)


def count_text(data: bytes, kind: str) -> Counts:
    """Count a text, or a part of one that ends where a line does. Whatever is no UTF-8 is no word."""
    text = data.decode("utf-8", "replace")
    words = Counter(_WORD.findall(text))
    return Counts(
        lines=text.count("\n") + (not text.endswith("\n")),
        words=words.total(),
        functions=len(_FUNCTION.findall(text)) if kind == "python" else 0,
        tokens={word: n for word, n in words.items() if len(word) >= 4 and word[0].isalpha()},
    )


def is_binary(start: bytes) -> bool:
    """Whether a file that begins so is no text."""
    return b"\0" in start


def most_frequent(tokens: Mapping[str, int], most: int) -> list[tuple[str, int]]:
    """The tokens that occur most often, in the order of the alphabet where they occur equally often."""
    return heapq.nsmallest(most, tokens.items(), key=lambda item: (-item[1], item[0]))
