"""Whether a student found its teacher's modules, and whether what it found recombines."""

from recombine.methods.modularity._alignment import (
    Alignment as Alignment,
    chance_alignment as chance_alignment,
    chance_corrected as chance_corrected,
    mix_modules as mix_modules,
    module_alignment as module_alignment,
    to_teacher_coordinates as to_teacher_coordinates,
)
from recombine.methods.modularity._decoding import (
    CG_STEPS as CG_STEPS,
    Decoded as Decoded,
    decode_latents as decode_latents,
    fit_mixing as fit_mixing,
    fit_readout as fit_readout,
    latent_r_squared as latent_r_squared,
    ridge as ridge,
)
from recombine.methods.modularity._fit_quality import (
    RelativeLoss as RelativeLoss,
    explained_variance as explained_variance,
    relative_loss as relative_loss,
)
from recombine.methods.modularity._similarity import (
    GeneratedAlignment as GeneratedAlignment,
    generated_alignment as generated_alignment,
    pairwise_cosine as pairwise_cosine,
)
