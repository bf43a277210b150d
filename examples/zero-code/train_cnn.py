"""Trains a small convolutional network on synthetic pictures: plain PyTorch that knows of no profiler."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 4
PICTURES = 512


def make_pictures() -> TensorDataset:
    """Pictures of one bright stripe; the class is the quarter it lies in."""
    labels = torch.randint(CLASSES, (PICTURES,))
    pictures = 0.3 * torch.randn(PICTURES, 1, 16, 16)
    for picture, label in zip(pictures, labels, strict=True):
        picture[0, int(label) * 4 + 1] += 1.0
    return TensorDataset(pictures, labels)


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 8 * 8, CLASSES),
    )


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(make_pictures(), batch_size=64, shuffle=True)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        correct = 0
        for pictures, labels in loader:
            optimizer.zero_grad()
            scores = model(pictures)
            criterion(scores, labels).backward()
            optimizer.step()
            correct += int((scores.argmax(dim=1) == labels).sum())
        print(f"epoch {epoch}: {correct / PICTURES:.0%} correct")


if __name__ == "__main__":
    main()
