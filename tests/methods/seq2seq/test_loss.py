import jax.numpy as jnp
import jax.random as jr
import numpy as np
from seq2seq_golden import Episode, Pairs, Sequences

from recombine.methods.seq2seq import episode_loss, token_loss


def test_uniform_scores_cost_the_log_of_the_vocabulary():
    targets = Sequences(jnp.array([[1, 7, 6], [2, 3, 7]]), jnp.array([2, 3]))
    np.testing.assert_allclose(token_loss(jnp.zeros((2, 3, 8)), targets), np.log(8), rtol=1e-6)


def test_the_mean_is_over_real_tokens_of_all_sequences():
    logits = np.asarray(jr.normal(jr.key(0), (2, 3, 4)))
    tokens, lengths = np.array([[1, 3, 0], [2, 0, 3]]), np.array([2, 3])
    costs = [
        np.log(np.exp(logits[i, t]).sum()) - logits[i, t, tokens[i, t]]
        for i in range(2)
        for t in range(lengths[i])
    ]
    found = token_loss(jnp.asarray(logits), Sequences(jnp.asarray(tokens), jnp.asarray(lengths)))
    np.testing.assert_allclose(found, np.mean(costs), rtol=1e-6)


class Constant:
    """Scores symbol 0 by one in every row, and remembers how many rows it was asked."""

    matches = predict = attention = staticmethod(lambda *arguments: None)

    def logits(self, support, queries, key):
        self.asked = queries.inputs.lengths.shape[0]
        return jnp.zeros((*queries.outputs.tokens.shape, 3)).at[..., 0].set(1.0)


def test_support_items_are_asked_in_the_same_mean():
    def pairs(tokens, lengths):
        sequences = Sequences(jnp.array(tokens), jnp.array(lengths))
        return Pairs(sequences, sequences)

    episode = Episode(pairs([[0, 0]], [2]), pairs([[1, 1], [1, 1], [1, 1]], [2, 1, 1]))
    right, wrong = -np.log(np.e / (np.e + 2)), -np.log(1 / (np.e + 2))
    model = Constant()
    np.testing.assert_allclose(
        episode_loss(model, episode, None, support_loss=False), wrong, rtol=1e-6
    )
    assert model.asked == 3
    both = (2 * right + 4 * wrong) / 6
    np.testing.assert_allclose(
        episode_loss(model, episode, None, support_loss=True), both, rtol=1e-6
    )
    assert model.asked == 4
