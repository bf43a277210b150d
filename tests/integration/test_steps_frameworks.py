"""Steps of loops that belong to frameworks: as many as these count themselves, where they say one ends."""
# torch and the frameworks are not type-checked here: their classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator"

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accelerate
import pytest
import pytorch_lightning as lightning
import torch
import transformers
from pytorch_lightning.plugins.precision import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.support.instrumented import attributes_of, run_instrumented
from tests.support.step_loop import Loop, hooked_loop, sgd

DOCUMENT = Path(__file__).parents[2] / "docs" / "frameworks.md"
EXAMPLE = re.compile(r"^<!-- tested -->\n```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def loop() -> Iterator[Loop]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for models this small more only wait for each other
    with hooked_loop() as loop:
        yield loop
    torch.set_num_threads(threads)


def batches(count: int) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(2 * count, 3)), batch_size=2)


def tiny_gpt() -> Any:
    shape = {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 8, "vocab_size": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))


def trainer_of(loop: Loop, folder: Path, **options: Any) -> Any:
    """A `transformers.Trainer` whose callback marks what it takes for the end of a step."""

    class Marks(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            loop.mark("step")

        def on_evaluate(self, *_: Any, **__: Any) -> None:
            loop.mark("evaluated")

    tokens = [{"input_ids": torch.arange(4), "labels": torch.arange(4)}] * 10
    return transformers.Trainer(
        model=tiny_gpt(),
        args=transformers.TrainingArguments(
            output_dir=str(folder),
            use_cpu=True,
            per_device_train_batch_size=2,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            **options,
        ),
        train_dataset=tokens,
        eval_dataset=tokens[:4],
        callbacks=[Marks()],
    )


def test_trainer(loop: Loop, tmp_path: Path) -> None:
    trainer = trainer_of(
        loop, tmp_path, num_train_epochs=2, gradient_accumulation_steps=2, eval_strategy="epoch"
    )
    trainer.train()
    steps = trainer.state.global_step
    assert steps == 2 * 3  # of 5 batches: the last step of an epoch has what is left
    assert loop.numbers == list(range(1, steps + 1))
    # The boundary is where the optimizer stepped; the framework says so a moment later.
    first, *others = loop.iterations()
    assert first == []
    assert [marks for marks in others if marks != ["step"]] == [["step", "evaluated"]] * 2


def test_a_second_trainer_in_one_process(loop: Loop, tmp_path: Path) -> None:
    trainers = [trainer_of(loop, tmp_path, num_train_epochs=1) for _ in range(2)]
    for trainer in trainers:
        trainer.train()
    assert loop.tracker.current == sum(trainer.state.global_step for trainer in trainers) == 10
    # The optimizer of the first, which is still there, was waited for once.
    assert loop.numbers == [*range(1, 6), *range(7, 11)]


@pytest.mark.parametrize("accumulated", [1, 2])
def test_accelerate(accumulated: int, loop: Loop) -> None:
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    optimizer = sgd(model := nn.Linear(3, 1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, batches(6), scheduler)
    for (inputs,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(inputs).square().mean())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        loop.mark("batch")
    assert loop.numbers == list(range(1, 6 // accumulated + 1))
    assert loop.iterations() == [["batch"] * (accumulated - 1)] + [["batch"] * accumulated] * (
        len(loop.numbers) - 1
    ) + [["batch"]]


class Regression(lightning.LightningModule):
    """One optimizer, which Lightning steps; or two that take turns, which it steps itself."""

    def __init__(self, loop: Loop, *, takes_turns: bool = False) -> None:
        super().__init__()
        self.models = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
        self.automatic_optimization = not takes_turns
        self.loop = loop

    def configure_optimizers(self) -> Any:
        optimizers = [sgd(model) for model in self.models]
        return optimizers[0] if self.automatic_optimization else optimizers

    def training_step(self, batch: Any, index: int) -> Any:
        self.loop.mark("batch")
        losses = [model(batch[0]).square().mean() for model in self.models]
        if self.automatic_optimization:
            return losses[0]
        for optimizer, loss in zip(self.optimizers(), losses, strict=True):
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return None

    def validation_step(self, batch: Any, index: int) -> None:
        self.loop.mark("validated")
        self.models[0](batch[0])


def fit(model: Regression, folder: Path, **options: Any) -> Any:
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        num_sanity_val_steps=1,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(model, batches(5), batches(2))
    return trainer


@pytest.mark.parametrize(("accumulated", "steps_of_an_epoch"), [(1, 5), (2, 3)])
def test_lightning_steps_the_optimizer(
    accumulated: int, steps_of_an_epoch: int, loop: Loop, tmp_path: Path
) -> None:
    trainer = fit(Regression(loop), tmp_path, accumulate_grad_batches=accumulated)
    assert trainer.global_step == 2 * steps_of_an_epoch
    assert loop.numbers == list(range(1, trainer.global_step + 1))
    first, *others = loop.iterations()
    assert first == ["validated"] + ["batch"] * accumulated  # a sanity check comes first
    of_a_second_epoch = others[steps_of_an_epoch - 1]
    assert of_a_second_epoch == ["validated"] * 2 + ["batch"] * accumulated
    assert others[-1] == ["validated"] * 2


def test_lightning_with_two_optimizers_by_hand(loop: Loop, tmp_path: Path) -> None:
    trainer = fit(Regression(loop, takes_turns=True), tmp_path)
    assert trainer.global_step == 20  # it counts steps of optimizers
    assert loop.numbers == list(range(1, 11))
    assert [marks for marks in loop.iterations() if "batch" in marks and "validated" not in marks] == [
        ["batch"]
    ] * 8


def test_lightning_updates_the_scaler_after_each_optimizer(loop: Loop, tmp_path: Path) -> None:
    precision = MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu"))
    fit(Regression(loop, takes_turns=True), tmp_path, plugins=[precision])
    assert loop.numbers == list(range(1, 11))


def test_the_example_of_the_document_has_the_steps_that_it_counts(tmp_path: Path) -> None:
    (example,) = EXAMPLE.findall(DOCUMENT.read_text("utf-8"))
    (tmp_path / "finetune.py").write_text(example)
    finished = run_instrumented(["finetune.py"], tmp_path, {"SCHEDULE": "active=1000"})
    steps = int(re.findall(r"(\d+) steps", finished.stdout)[-1])
    numbers = sorted(attributes_of(span)["torch.step.number"] for span in finished.named("torch.step"))
    # Before the first of them is the set-up of the program, and after the last what it does at its end.
    assert numbers == list(range(steps + 1))
