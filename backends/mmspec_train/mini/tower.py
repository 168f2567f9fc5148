"""Pre-training of the vision tower: it classifies every cell of a picture."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers import CLIPVisionModel

from mmspec_train.mini import build
from mmspec_train.mini.samples import LabelledBatch

EMPTY_WEIGHT = 0.2
"""Loss weight of empty cells, which are the majority."""


class CellClassifier(nn.Module):
    """A tower with a linear classifier per label on the features that LLaVA reads."""

    def __init__(self, tower: CLIPVisionModel, hidden: int, labels: Mapping[str, int]) -> None:
        """Add classifiers to a tower of width `hidden`; `labels`: number of classes by label."""
        super().__init__()
        self.tower = tower
        heads = {name: nn.Linear(hidden, classes) for name, classes in labels.items()}
        self.heads = nn.ModuleDict(heads)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return (images, patches, classes) logits of each label."""
        features = build.patch_features(self.tower, pixels)
        return {name: head(features).float() for name, head in self.heads.items()}

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Return the sum of the labels' cross-entropies."""
        losses = [
            nn.functional.cross_entropy(
                logits.flatten(0, 1), classes.flatten(), _weights(name, logits)
            )
            for classes, (name, logits) in zip(
                batch.labels, self(batch.pixels).items(), strict=True
            )
        ]
        return torch.stack(losses).sum()


def _weights(name: str, logits: Tensor) -> Tensor:
    weights = torch.ones(logits.shape[-1], device=logits.device)
    if name != "background":
        weights[0] = EMPTY_WEIGHT
    return weights
