"""EAGLE-3 to train: the target's captured layers are fused, and the head has its own vocabulary.

Shape letters: B sequences, L columns, A starts, D depths, H width, c captured layers, d tokens that
the head can draft, V vocabulary.
"""

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mmspec.checkpoints.eagle3_config import Eagle3
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.families.decoder import TextConfig
from mmspec_train.data.batch import Batch
from mmspec_train.data.teacher import Teacher
from mmspec_train.distillation.objective import DraftStarts
from mmspec_train.heads.layered import CachedHead, DecoderLayerModule


class Eagle3Layer(DecoderLayerModule):
    """A Llama layer whose attention reads embedding and state side by side, each normalised."""

    def __init__(self, text: TextConfig) -> None:
        super().__init__(text, input_norm=True)
        width, size, attention = text.hidden_size, text.head_dim, self.self_attn
        queries, keys = text.num_attention_heads * size, text.num_key_value_heads * size
        attention.q_proj = nn.Linear(2 * width, queries, bias=False)
        attention.k_proj = nn.Linear(2 * width, keys, bias=False)
        attention.v_proj = nn.Linear(2 * width, keys, bias=False)
        self.hidden_norm = nn.RMSNorm(width, text.rms_norm_eps)

    def enter(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what attention reads of x [..., 2 H], and the states [..., H] to add to."""
        embeddings, states = x.chunk(2, dim=-1)
        parts = self.input_layernorm(embeddings), self.hidden_norm(states)
        return torch.cat(parts, dim=-1), states


class Eagle3Module(CachedHead):
    """An EAGLE-3 head."""

    def __init__(self, config: HeadConfig, options: Eagle3, text: TextConfig) -> None:
        """Build random weights; `begin` must follow before training."""
        super().__init__()
        self.config, self.options = config, options
        width, eps, count = config.hidden_size, text.rms_norm_eps, options.count
        self.fc_norm = nn.ModuleList(
            nn.RMSNorm(width, eps) for _ in range(count if options.fc_norm else 0)
        )
        self.fc = nn.Linear(count * width, width, bias=False)
        self.layers = nn.ModuleList([Eagle3Layer(text)])
        self.norm = nn.RMSNorm(width, eps)
        self.lm_head = nn.Linear(width, options.draft_vocab_size, bias=False)
        self.ids = nn.Buffer(torch.arange(options.draft_vocab_size), persistent=False)
        self.image = nn.Buffer(torch.zeros(width), persistent=False)

    @torch.no_grad()
    def begin(self, teacher: Teacher, answers: Iterable[int]) -> None:
        """Draft the commonest tokens of `answers`, by their rows in the target's matrix."""
        output_matrix = teacher.output_matrix
        count, vocabulary = self.options.draft_vocab_size, len(output_matrix)
        counts = Counter(answers)
        ranking = sorted(range(vocabulary), key=lambda token: (-counts[token], token))
        self.ids.copy_(torch.tensor(sorted(ranking[:count])))
        self.matrix = output_matrix if count == vocabulary else output_matrix[self.ids]
        self.lm_head.weight.copy_(self.matrix)
        self.image.copy_(teacher.embed(torch.tensor(teacher.image_id)))

    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, H]."""
        embeddings, states = batch.embeddings, batch.layer_outputs
        visual = batch.visual.unsqueeze(-1)
        embeddings = torch.where(visual, self.image.to(embeddings.dtype), embeddings)
        if self.fc_norm:
            parts = states.chunk(len(self.fc_norm), dim=-1)
            states = torch.cat([norm(x) for norm, x in zip(self.fc_norm, parts, strict=True)], -1)
        # The layer reads each column's states beside the next embedding, [B, L - 1, 2 H].
        x = torch.cat((embeddings[:, 1:], self.fc(states[:, :-1]).float()), dim=-1)
        # A row stands where the target has its column, as in decoding.
        rows = x, starts.before, batch.positions
        return torch.stack(list(self.chains(*rows, batch, starts)))

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Return the log-probabilities [n, d] of features [n, H], by the head's own matrix."""
        logits: Tensor = self.lm_head(self.norm(features)).float()
        return logits.log_softmax(dim=-1)

    def likeliest(self, features: Tensor) -> Tensor:
        """Return the likeliest token of each feature, one of the head's."""
        return self.ids[super().likeliest(features)]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The head's tensors, and d2t and t2d if it does not draft all tokens."""
        count, vocabulary = len(self.ids), self.config.vocab_size
        if count == vocabulary:
            return self.state_dict()
        ids = self.ids.cpu()
        t2d = torch.zeros(vocabulary, dtype=torch.bool)
        t2d[ids] = True
        return self.state_dict() | {"d2t": ids - torch.arange(count), "t2d": t2d}

    def _fuse(self, token: Tensor, feature: Tensor) -> Tensor:
        feature = self.norm(feature) if self.options.norm_output else feature
        return torch.cat((token, feature.float()), dim=-1)
