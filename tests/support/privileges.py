"""Files that must not be read, also where the tests run as root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NOBODY = 65534


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Within it root may open only what anybody may; others are bound anyway.

    Import before what is to be used within: the sources may not be anybody's to read.
    """
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
