"""Texts that a program's authors wrote pass a function of theirs before they leave the process."""

from __future__ import annotations

import importlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from otel_torchprof.recording import Recording
from otel_torchprof.spans import BATCH_SPAN_NAME
from otel_torchprof.telemetry.after_fork import rebuild_after_fork

RedactionHook: TypeAlias = Callable[[str], "str | None"]

REDACTED = "redacted"

# Why a text became REDACTED.
HOOK_REFUSED = "hook_refused"
HOOK_FAILED = "hook_failed"
HOOK_MISSING = "hook_missing"

# Programs that put numbers into names have no end of them.
_MAX_REMEMBERED = 65_536
# User scopes of ours and of torch: what is known of steps and batches hangs on these names.
_OWN_NAMES = re.compile(rf"{re.escape(BATCH_SPAN_NAME)}|ProfilerStep#\d+")

_logger = logging.getLogger(__name__)


class Redactor:
    """What a hook makes of texts, each asked for once; a text that it has none for is `REDACTED`.

    Any thread may call it. Nothing of it raises, and no text gets into the log.

    Args:
        hook: the function, or its name as `package.module:function`, imported with the first text.
    """

    def __init__(self, hook: RedactionHook | str) -> None:
        self._hook = hook
        self.rebuild_in_child()
        rebuild_after_fork(self)

    def rebuild_in_child(self) -> None:
        """Start anew: another thread of the parent may hold the lock."""
        self._lock = threading.RLock()  # a hook may end in a call of ours
        self._by_text: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many texts became `REDACTED`, by reason."""
        return dict(self._counts)

    def __call__(self, text: str) -> str:
        """What stands for `text` outside the process: valid Unicode."""
        with self._lock:
            redacted = self._by_text.get(text)
            if redacted is None:
                redacted = text if _OWN_NAMES.fullmatch(text) else self._ask(text)
                if len(self._by_text) >= _MAX_REMEMBERED:
                    self._by_text.clear()
                self._by_text[text] = redacted
            return redacted

    def recording(self, recording: Recording) -> Recording:
        """A copy of `recording` that may leave the process."""
        return recording.redacted(self)

    def _ask(self, text: str) -> str:
        try:
            hook = self._hook if callable(self._hook) else _import_function(self._hook)
        except (Exception, SystemExit) as error:  # a program that is imported may end itself
            return self._give_up(HOOK_MISSING, f"cannot be imported ({type(error).__name__})")
        self._hook = hook
        try:
            redacted = hook(text)
        except (Exception, SystemExit) as error:
            # Its message may have the text in it.
            return self._give_up(HOOK_FAILED, f"raised {type(error).__name__}")
        if redacted is None:
            return self._give_up(HOOK_REFUSED, "returned None", logging.INFO)
        if not isinstance(redacted, str):
            return self._give_up(HOOK_FAILED, f"returned {type(redacted).__name__}, no str")
        return redacted.encode("utf-8", "replace").decode()

    def _give_up(self, reason: str, what_it_did: str, level: int = logging.WARNING) -> str:
        self._counts[reason] += 1
        if self._counts[reason] == 1:
            _logger.log(
                level,
                "otel-torchprof: the redaction hook %s: such a name or argument is sent as %r (logged once)",
                what_it_did,
                REDACTED,
            )
        return REDACTED


def _import_function(name: str) -> RedactionHook:
    module, _, path = name.partition(":")
    function: Any = importlib.import_module(module)
    for attribute in path.split("."):
        function = getattr(function, attribute)
    if not callable(function):
        raise TypeError("not a function")
    return cast(RedactionHook, function)
