"""What memory is used for."""

from __future__ import annotations

from enum import IntEnum

from otel_torchprof.recording import TensorRole


class Category(IntEnum):
    """In the order of torch's memory timeline, so that the numbers are those of its raw export."""

    PARAMETER = 0
    OPTIMIZER_STATE = 1
    INPUT = 2
    TEMPORARY = 3
    ACTIVATION = 4
    GRADIENT = 5
    AUTOGRAD_DETAIL = 6
    UNKNOWN = 7

    @property
    def label(self) -> str:
        """For people."""
        return self.name.lower().replace("_", " ")


# A tensor in several roles is what comes first here. Buffers are what the model is given, as its inputs are:
# no gradient ever changes them.
CATEGORY_OF_ROLE = {
    TensorRole.PARAMETER: Category.PARAMETER,
    TensorRole.OPTIMIZER_STATE: Category.OPTIMIZER_STATE,
    TensorRole.GRADIENT: Category.GRADIENT,
    TensorRole.BUFFER: Category.INPUT,
}
