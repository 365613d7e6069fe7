"""Two toy tasks with privileged data: a hidden XOR (task A) and labels drawn by chance (task B).

Small enough to see when data that exist only in training can help: because they explain the label
in a form that the input cannot predict, or because they show the chances behind it (Neitz, thesis,
§4.4.1 and App. C).
"""

from recombine.tasks.privileged_toys._hidden_xor import (
    XorExamples as XorExamples,
    XorWorld as XorWorld,
    draw_xor_world as draw_xor_world,
    sample_xor as sample_xor,
    xor_rate as xor_rate,
)
from recombine.tasks.privileged_toys._noisy_labels import (
    SHARPNESS as SHARPNESS,
    NoisyExamples as NoisyExamples,
    NoisyWorld as NoisyWorld,
    divergence_from_truth as divergence_from_truth,
    draw_noisy_world as draw_noisy_world,
    sample_noisy as sample_noisy,
)
