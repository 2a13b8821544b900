"""What must hold whatever happens; checkers know neither workloads nor faults, only the evidence and the nodes."""
