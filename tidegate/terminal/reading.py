"""How the shell gets its statements: from a terminal, with completion and a history that stays, or from a file that is piped in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.patch_stdout import patch_stdout
from pygments.lexers.sql import SqlLexer
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidegate.language.dialect import Tidegate, unclosed
from tidegate.redaction import masked
from tidegate.spark.logs import own_folder

WORDS = ("quit", "exit", "help")
"""What may be typed without a semicolon."""


def is_whole(text: str) -> bool:
    """Whether a text ends where a statement does: at a semicolon that stands in no comment and in no quotes. Commands end with their line.

    >>> [is_whole(t) for t in ("SELECT 1;", "SELECT 1 -- a;", "SELECT ';", "SELECT ';';", "SELECT 1; -- done", "quit", "\\\\\\\\d S", "-- a;")]
    [True, False, False, True, True, True, True, True]
    >>> is_whole("SELECT 1; /* and"), is_whole("SELECT 1; SELECT 2")
    (False, False)
    """
    bare = text.strip()
    if not bare or bare.startswith("\\") or bare.rstrip(";").strip().lower() in WORDS:
        return True
    try:
        tokens = Tidegate().tokenize(text)
    except TokenError:
        return False
    if unclosed(text) is not None:
        return False
    return not tokens or tokens[-1].token_type == TokenType.SEMICOLON


class Reader(Protocol):
    """Where statements come from."""

    def read(self) -> str:
        """The next statements or command; EOFError at the end, KeyboardInterrupt where what was typed is dropped."""


class _SafeHistory(FileHistory):
    """Statements of all shells, without their secrets. A file that cannot be written keeps nobody from asking."""

    def load_history_strings(self) -> Any:
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        try:
            Path(str(self.filename)).touch(mode=0o600)
            super().store_string(masked(string))
        except OSError:
            return


def history() -> History:
    folder = own_folder()
    return InMemoryHistory() if folder is None else _SafeHistory(str(folder / "history"))


class TerminalReader:
    """A prompt. Enter ends a statement that is whole and begins a new line in one that is not; Ctrl-C drops it."""

    def __init__(self, completer: Completer, input: Any = None, output: Any = None) -> None:
        self.prompt: PromptSession[str] = PromptSession(
            history=history(),
            completer=completer,
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            prompt_continuation=lambda width, number, wrapped: "... ".rjust(width),
            key_bindings=_bindings(),
            enable_open_in_editor=True,
            input=input,
            output=output,
        )

    def read(self) -> str:
        with patch_stdout(raw=True):  # what live queries say meanwhile goes above the prompt
            return self.prompt.prompt("tidegate> ")


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    return bindings


class PipedReader:
    """Lines of a file or of another program, statement by statement, without a prompt."""

    def __init__(self, line: Callable[[], str] | None = None) -> None:
        self._line = line or sys.stdin.readline

    def read(self) -> str:
        text = ""
        while line := self._line():
            text += line
            if text.strip() and is_whole(text):
                return text
        if not text.strip():
            raise EOFError
        return text  # what is wrong with it is told by the parser
