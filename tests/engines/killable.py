"""A process that trains one run again and again, each time in a child that may be killed.

Importing takes longer than the run, so it is done once: a line on the standard input forks a child
that trains, and the child's process id is printed when its training starts.
"""

import os
import sys
import warnings

from recombine.engines import RunRequest, run_row
from recombine.experiments import find_row
from recombine.training import SilentProgress

ROW, CHANGES = "ilc/synthetic/and-mask", ("steps=120", "eval_every=2", "num_examples=256")


class SayWhenStarted(SilentProgress):
    def advance(self, steps):
        if not getattr(self, "said", False):
            print(os.getpid(), flush=True)
            self.said = True


def train(runs):
    request = RunRequest.of(find_row(ROW), "tiny", changes=CHANGES)
    return run_row(request, runs, progress=SayWhenStarted(), checkpoint_seconds=0)


if __name__ == "__main__":
    import orbax.checkpoint  # noqa: F401

    import recombine.experiments.agreement._learners  # noqa: F401

    for line in sys.stdin:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no JAX backend is running yet: forking is safe
            child = os.fork()
        if child == 0:
            train(line.strip())
            print("finished", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("gone", flush=True)
