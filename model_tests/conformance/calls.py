"""One call of an adapter and what became of it. The only place where somebody else's exceptions are caught."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from .plug import Refused, Unsupported

__all__ = ["Answer", "Gone", "ask"]

T = TypeVar("T")


class Gone(Exception):
    """The testee cannot be asked any more. ``hung``: a call did not return; else it crashed."""

    def __init__(self, reason: str, hung: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.hung = reason, hung


class Answer(Generic[T]):
    """``value`` when it returned; else ``refused`` says how, ``raised`` whether it was any exception but ``Refused``."""

    __slots__ = ("raised", "refused", "value")

    def __init__(self) -> None:
        self.value: T | None = None
        self.refused = ""
        self.raised = False

    @property
    def ok(self) -> bool:
        return not self.refused

    def __enter__(self) -> Answer[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, Gone | Unsupported):
            return False
        self.raised = not isinstance(error, Refused)
        self.refused = f"{type(error).__name__}: {error}"[:400] if self.raised else str(error)[:400] or "refused"
        return True


def ask(call: Callable[[], T]) -> Answer[T]:
    """Call. Raises ``Gone`` and ``Unsupported``, and nothing else that an engine may raise."""
    answer: Answer[T] = Answer()
    with answer:
        answer.value = call()
    return answer
