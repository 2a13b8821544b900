"""`python -m ottla.sim --seed N` repeats one run; see `ottla.sim.runner`."""

from ottla.sim.runner import main

if __name__ == "__main__":
    main()
