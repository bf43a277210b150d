"""Trains a small transformer to repeat a sequence backwards. Plain PyTorch, with gradient accumulation."""

import torch
from torch import Tensor, nn

TOKENS = 16
LENGTH = 12
WIDTH = 64
MICRO_BATCHES = 2


class Reverser(nn.Module):
    """Predicts the token at each place of the reversed sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=128, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, sequences: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(self.tokens(sequences) + self.places)
        scores: Tensor = self.head(hidden)
        return scores


def main() -> None:
    torch.manual_seed(0)
    model = Reverser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    criterion = nn.CrossEntropyLoss()
    for step in range(30):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(MICRO_BATCHES):
            sequences = torch.randint(TOKENS, (32, LENGTH))
            scores = model(sequences)
            loss = criterion(scores.flatten(0, 1), sequences.flip(1).flatten()) / MICRO_BATCHES
            loss.backward()
            total += loss.item()
        optimizer.step()
        schedule.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {total:.3f}")


if __name__ == "__main__":
    main()
