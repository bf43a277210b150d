"""What the declarative configuration file (`OTEL_CONFIG_FILE`) says about us.

The configurator passes the options of `instrumentation/development: python: torchprof:` to the instrumentor,
except when they say `enabled: false`: then it does nothing, and the automatic load that follows it would
instrument all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module

_logger = logging.getLogger(__name__)

_NAME = "torchprof"


def is_disabled_by_file(environ: Mapping[str, str]) -> bool:
    """Whether the configuration file that `environ` names says `enabled: false`."""
    path = environ.get("OTEL_CONFIG_FILE", "").strip()
    if not path:
        return False
    try:
        # In a package of its own, installed by those who use such files.
        load_config_file = import_module("opentelemetry.configuration").load_config_file
        instrumentation = load_config_file(path).instrumentation_development
        options = (instrumentation.python or {}).get(_NAME, {}) if instrumentation else {}
        return options.get("enabled", True) is False
    except Exception as error:
        # The configurator has said already what is wrong with the file.
        _logger.debug("%s was not read: %s", path, error)
        return False
