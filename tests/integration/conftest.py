"""What tests of several pages, and of several parts of the instrumentation, share."""

from collections.abc import Iterator

import pytest

from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.recorder.steps import process_steps
from tests.support.browser import browser, driver
from tests.support.trainings import Trainings

__all__ = ["browser", "driver"]


@pytest.fixture
def instrumentor() -> Iterator[TorchprofInstrumentor]:
    """Not yet instrumenting; what a test leaves on ends with it."""
    process_steps.start_over()
    instrumentor = TorchprofInstrumentor()
    yield instrumentor
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    process_steps.start_over()


@pytest.fixture(scope="module")
def trainings() -> Iterator[Trainings]:
    """A program that trains as often as a test wants, in surroundings of its choice."""
    trainings = Trainings()
    yield trainings
    trainings.close()


@pytest.fixture(scope="module")
def loss(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the training that nobody looks at."""
    assert trainings.run(tmp_path_factory.mktemp("plain"), {"ENABLED": "false"}) == ""
    return trainings.loss
