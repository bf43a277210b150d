"""Trains some steps, says so, and waits to be ended: how, the argument says."""

import ctypes
import os
import signal
import sys

import torch
from torch import nn


def main() -> None:
    if "own-handler" in sys.argv:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    if "fork" in sys.argv:
        child = os.fork()
        if child == 0:
            wait_in_python()
        os.kill(child, signal.SIGTERM)
        print("child ended by", os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
    print("waiting", flush=True)
    wait_in_a_library() if "library" in sys.argv else wait_in_python()


def wait_in_python() -> None:
    while True:
        signal.pause()


def wait_in_a_library() -> None:
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)  # for ever: no signal interrupts it


if __name__ == "__main__":
    main()
