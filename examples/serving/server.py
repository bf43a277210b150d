"""A server of a small model: one request at a time, in batches, and token by token."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import torch
from fastapi import FastAPI
from opentelemetry import trace

from otel_torchprof import batch

MAX_BATCH = 8
MAX_WAIT_S = 0.02
VOCABULARY = 32


class Classifier(torch.nn.Module):
    """A few layers; `depth` of them for a request."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, inputs: torch.Tensor, depth: int = 1) -> torch.Tensor:
        for _ in range(depth):
            inputs = torch.relu(self.layer(inputs))
        return inputs.sum(dim=-1)


class NextToken(torch.nn.Module):
    """Scores for the token that follows."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 16)
        self.head = torch.nn.Linear(16, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).mean(dim=0))


classifier = Classifier().eval()
next_token = NextToken().eval()
# What waits to be answered: the request's span, its input, and where its answer goes.
waiting: asyncio.Queue[tuple[trace.Span, torch.Tensor, asyncio.Future[float]]] = asyncio.Queue()


@torch.inference_mode()
def classify(depth: int) -> dict[str, str]:
    classifier(torch.ones(1, 16), depth)
    return {"trace_id": trace_id()}


def trace_id() -> str:
    return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)


@torch.inference_mode()
def classify_together(spans: Sequence[trace.Span], inputs: Sequence[torch.Tensor]) -> list[float]:
    # On the thread that does the work: it is that thread's time that the requests share.
    with batch(spans):
        scores: list[float] = classifier(torch.stack(list(inputs))).tolist()
    return scores


async def answer_batches() -> None:
    """Take what waits, at most `MAX_BATCH` at once, for as long as the server runs."""
    while True:
        requests = [await waiting.get()]
        deadline = asyncio.get_running_loop().time() + MAX_WAIT_S
        while len(requests) < MAX_BATCH and asyncio.get_running_loop().time() < deadline:
            try:
                requests.append(waiting.get_nowait())
            except asyncio.QueueEmpty:
                await asyncio.sleep(0.001)
        spans, inputs, answers = zip(*requests, strict=True)
        scores = await asyncio.to_thread(classify_together, spans, inputs)
        for answer, score in zip(answers, scores, strict=True):
            answer.set_result(score)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    worker = asyncio.create_task(answer_batches())
    yield
    worker.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/sync")
def in_a_thread_pool(depth: int = 1) -> dict[str, str]:
    return classify(depth)


@app.get("/async")
async def in_the_event_loop(depth: int = 1) -> dict[str, str]:
    await asyncio.sleep(0)
    return classify(depth)


@app.get("/to_thread")
async def in_another_thread(depth: int = 1) -> dict[str, str]:
    return await asyncio.to_thread(classify, depth)


@app.get("/batched")
async def batched() -> dict[str, str | float]:
    answer: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    await waiting.put((trace.get_current_span(), torch.ones(16), answer))
    return {"trace_id": trace_id(), "score": await answer}


@app.get("/generate")
@torch.inference_mode()
def generate(tokens: int = 5) -> dict[str, str | list[int]]:
    text = torch.tensor([1])
    for _ in range(tokens):
        text = torch.cat([text, next_token(text).argmax().reshape(1)])
    return {"trace_id": trace_id(), "text": text.tolist()}
