# pyright: reportMissingImports=false
"""The memory network of Lake (2019), §3, written in PyTorch in the most direct way.

It serves as the other side of a speed ratio and nothing else: library LSTMs, packed sequences, a
decoder that attends step by step, one optimizer step per episode. Episodes are drawn beforehand,
so that drawing them costs it nothing.
"""

import jax
import jax.random as jr
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from recombine.tasks import scan

SIZE, DROPOUT, NUM_INPUTS, NUM_OUTPUTS = 200, 0.5, 15, 8
SOS = 6  # of the outputs


class Encoder(nn.Module):
    def __init__(self, num_symbols: int):
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, SIZE)
        self.dropout = nn.Dropout(DROPOUT)
        self.lstm = nn.LSTM(SIZE, SIZE, 2, dropout=DROPOUT, bidirectional=True, batch_first=True)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.dropout(self.embedding(tokens)),
            lengths.cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        outputs, (hidden, _) = self.lstm(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=tokens.shape[1])
        steps = outputs[..., :SIZE] + outputs[..., SIZE:]
        return steps, hidden[-2] + hidden[-1]


class MemoryNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.outputs = Encoder(NUM_INPUTS), Encoder(NUM_OUTPUTS)
        self.combine = nn.Linear(2 * SIZE, SIZE)
        self.embedding = nn.Embedding(NUM_OUTPUTS, SIZE)
        self.dropout = nn.Dropout(DROPOUT)
        self.lstm = nn.LSTM(SIZE, SIZE, 2, dropout=DROPOUT, batch_first=True)
        self.join = nn.Linear(2 * SIZE, SIZE)
        self.logits = nn.Linear(SIZE, NUM_OUTPUTS)

    def forward(self, episode):
        (support_in, support_out), (query_in, query_out) = episode
        _, keys = self.inputs(*support_in)
        _, values = self.outputs(*support_out)
        steps, _ = self.inputs(*query_in)
        weights = torch.softmax(steps @ keys.T / SIZE**0.5, dim=-1)
        context = torch.tanh(self.combine(torch.cat([steps, weights @ values], dim=-1)))
        last = context[torch.arange(len(context)), query_in[1] - 1]
        state = (last.expand(2, -1, -1).contiguous(), last.expand(2, -1, -1).contiguous())
        targets, lengths = query_out
        token = torch.full_like(targets[:, 0], SOS)
        scores = []
        for step in range(int(lengths.max())):
            hidden, state = self.lstm(self.dropout(self.embedding(token))[:, None], state)
            weights = torch.softmax(hidden @ context.transpose(1, 2) / SIZE**0.5, dim=-1)
            joined = torch.cat([hidden, weights @ context], dim=-1)[:, 0]
            scores.append(self.logits(torch.tanh(self.join(joined))))
            token = targets[:, step]
        scores = torch.stack(scores, dim=1)
        is_real = torch.arange(scores.shape[1], device=scores.device)[None] < lengths[:, None]
        return nn.functional.cross_entropy(scores[is_real], targets[:, : scores.shape[1]][is_real])


def make_trainer(episodes: int):
    """Returns a call that trains on so many episodes and waits until it is done."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    source = scan.add_jump_permutation()
    held = source.begin(jr.key(0))
    draw = jax.jit(lambda key: source.sample(held, key))
    drawn = [_to_torch(draw(jr.key(number)), device) for number in range(episodes)]
    torch.manual_seed(0)
    network = MemoryNetwork().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def train() -> None:
        for episode in drawn:
            optimizer.zero_grad()
            network(episode).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 50.0)
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return train


def _to_torch(episode, device: str):
    """Asks the support items as well, as the support loss does."""

    def tensors(sequences):
        tokens = torch.tensor(np.asarray(sequences.tokens), dtype=torch.long, device=device)
        return tokens, torch.tensor(np.asarray(sequences.lengths), dtype=torch.long, device=device)

    def join(one, other):
        return tuple(torch.cat(pair) for pair in zip(one, other, strict=True))

    support = tensors(episode.support.inputs), tensors(episode.support.outputs)
    queries = tensors(episode.queries.inputs), tensors(episode.queries.outputs)
    return support, (join(queries[0], support[0]), join(queries[1], support[1]))
