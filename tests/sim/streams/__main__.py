"""`python -m tests.sim.streams --seed N` repeats one run; see `ottla.sim.runner`."""

from ottla.sim.runner import main
from tests.sim.streams.runs import RUNS

if __name__ == "__main__":
    main(runs=RUNS)
