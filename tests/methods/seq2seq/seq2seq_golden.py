"""Fills models with the numbers of a formula, in the order in which the original stores tensors."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

WORDS = [
    *("walk", "look", "run", "jump", "turn", "left", "right"),
    *("opposite", "around", "twice", "thrice", "and", "after"),
]
ACTIONS = ["I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT"]


class Sequences(NamedTuple):
    tokens: Any
    lengths: Any


class Pairs(NamedTuple):
    inputs: Sequences
    outputs: Sequences


class Episode(NamedTuple):
    support: Pairs
    queries: Pairs


def encode(sentences, names, width):
    tokens = np.full((len(sentences), width), len(names), np.int32)
    for row, sentence in enumerate(sentences):
        symbols = [names.index(name) for name in sentence.split()] + [len(names) + 1]
        tokens[row, : len(symbols)] = symbols
    lengths = np.array([len(sentence.split()) + 1 for sentence in sentences], np.int32)
    return Sequences(jnp.asarray(tokens), jnp.asarray(lengths))


def pairs(items, input_width, output_width):
    return Pairs(
        encode([source for source, _ in items], WORDS, input_width),
        encode([target for _, target in items], ACTIONS, output_width),
    )


def episode(input_width=7, output_width=6):
    support = [("walk", "I_WALK"), ("look", "I_LOOK"), ("run", "I_RUN"), ("jump", "I_JUMP")]
    queries = [
        ("run", "I_RUN"),
        (
            "walk opposite right after jump twice",
            "I_JUMP I_JUMP I_TURN_RIGHT I_TURN_RIGHT I_WALK",
        ),
    ]
    return Episode(
        pairs(support, input_width, output_width), pairs(queries, input_width, output_width)
    )


class Filler:
    """Hands out tensor after tensor; weights are given as [out, in] and turned around."""

    def __init__(self):
        self.number = 0

    def tensor(self, *shape):
        i = np.arange(np.prod(shape), dtype=np.float64)
        values = 0.9 * np.sin(0.1 * (i + 1) ** 2 + self.number)
        self.number += 1
        return values.reshape(shape).astype(np.float32)

    def like(self, array):
        return jnp.asarray(self.tensor(*array.shape))

    def linear(self, layer):
        weight = self.tensor(*layer.weight.shape[::-1]).T
        return eqx.tree_at(
            lambda x: (x.weight, x.bias), layer, (jnp.asarray(weight), self.like(layer.bias))
        )

    def lstm(self, layer):
        parts = [[], [], [], []]
        for _ in range(layer.hidden_weight.shape[0]):
            parts[0].append(self.tensor(*layer.input_weight.shape[:0:-1]).T)
            parts[1].append(self.tensor(*layer.hidden_weight.shape[:0:-1]).T)
            parts[2].append(self.tensor(layer.input_bias.shape[1]))
            parts[3].append(self.tensor(layer.hidden_bias.shape[1]))
        return eqx.tree_at(
            lambda x: (x.input_weight, x.hidden_weight, x.input_bias, x.hidden_bias),
            layer,
            tuple(jnp.asarray(np.stack(part)) for part in parts),
        )

    def encoder(self, encoder):
        embedding = self.like(encoder.embedding)
        layers = tuple(self.lstm(layer) for layer in encoder.layers)
        return eqx.tree_at(lambda x: (x.embedding, x.layers), encoder, (embedding, layers))

    def decoder(self, decoder):
        decoder = self.encoder(decoder)  # the same fields in the same order
        if decoder.combine is not None:
            decoder = eqx.tree_at(lambda x: x.combine, decoder, self.linear(decoder.combine))
        return eqx.tree_at(lambda x: x.output, decoder, self.linear(decoder.output))


def fill_meta(model):
    fill = Filler()
    inputs, outputs = fill.encoder(model.encoder.inputs), fill.encoder(model.encoder.outputs)
    combine = fill.linear(model.encoder.combine)
    model = eqx.tree_at(
        lambda x: (x.encoder.inputs, x.encoder.outputs, x.encoder.combine),
        model,
        (inputs, outputs, combine),
    )
    assert fill.number == 36
    return eqx.tree_at(lambda x: x.decoder, model, fill.decoder(model.decoder)), fill.number


def fill_plain(model):
    fill = Filler()
    encoder = fill.encoder(model.encoder)
    decoder = fill.decoder(model.decoder)
    return eqx.tree_at(lambda x: (x.encoder, x.decoder), model, (encoder, decoder)), fill.number


def fill_syntactic(model):
    fill = Filler()
    e = model.encoder
    tables = [fill.like(x) for x in (e.meaning, e.syntax, e.sos_vector, e.eos_vector)]
    layers = [fill.lstm(e.surroundings), fill.lstm(e.structure), fill.linear(e.start)]
    encoder = eqx.tree_at(
        lambda x: (
            x.meaning,
            x.syntax,
            x.sos_vector,
            x.eos_vector,
            x.surroundings,
            x.structure,
            x.start,
        ),
        e,
        (*tables, *layers),
    )
    lstm = fill.lstm(model.decoder.lstm)
    output = fill.linear(model.decoder.output)
    decoder = eqx.tree_at(lambda x: (x.lstm, x.output), model.decoder, (lstm, output))
    return eqx.tree_at(lambda x: (x.encoder, x.decoder), model, (encoder, decoder)), fill.number


def count(model):
    return sum(leaf.size for leaf in jax.tree.leaves(model))
