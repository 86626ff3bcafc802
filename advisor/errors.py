"""Every error a user can cause, each with its place and the likely remedy.

    AdvisorError
    ├── UsageError        the command line asks for something impossible      (exit 2)
    ├── CatalogueError    a rule, page or table cannot be loaded              (exit 2)
    └── InputError        one input cannot be used; the others still are      (a line in the inventory)
"""

from __future__ import annotations


class AdvisorError(Exception):
    """Base of all errors shown to the user as one message, without a traceback.

    `place` is the file (and line) the message is about, `remedy` what most likely helps.
    """

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}\n  try: {self.remedy}" if self.remedy else text


class UsageError(AdvisorError):
    """The command line asks for something impossible."""


class CatalogueError(AdvisorError):
    """A rule, cause page or reference table cannot be loaded."""


class InputError(AdvisorError):
    """One input cannot be used; the rest of the run goes on."""
