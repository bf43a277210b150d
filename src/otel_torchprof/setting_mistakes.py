"""What is wrong with our settings in the environment: values that are not accepted, names that are none."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from otel_torchprof import environment_variables
from otel_torchprof.config import SETTINGS, SettingError

_PREFIX = "OTEL_PYTHON_TORCHPROF_"
_KNOWN = {
    name.removeprefix(_PREFIX): name for name in vars(environment_variables) if name.startswith(_PREFIX)
}


@dataclass(frozen=True)
class SettingMistake:
    """What is wrong and what to do about it; each names the setting."""

    what: str
    way_out: str


def unaccepted_values(environ: Mapping[str, str]) -> list[SettingMistake]:
    """The settings whose values are not accepted."""
    mistakes = []
    for setting in SETTINGS:
        try:
            setting.read({}, environ)
        except SettingError as error:
            what = f"{error.name}={error.value!r} is not accepted ({error.reason})"
            mistakes.append(SettingMistake(what, f"give {error.name} {error.accepted}"))
    return mistakes


def unknown_settings(environ: Mapping[str, str]) -> list[SettingMistake]:
    """The variables that look like settings and are none, by name alone: a value may be anything."""
    mistakes = []
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in _KNOWN.values():
            # Without the prefix, which is so long that it makes all names alike.
            nearest = difflib.get_close_matches(name.removeprefix(_PREFIX), _KNOWN, n=1)
            way_out = f"set {_KNOWN[nearest[0]]}" if nearest else "docs/configuration.md lists the settings"
            mistakes.append(SettingMistake(f"{name} is no setting", way_out))
    return mistakes
