"""What goes wrong in a simulation, and when; schedules know neither workloads nor checkers."""
