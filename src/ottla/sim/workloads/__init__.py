"""What clients do in a simulation; they write down what they were told and judge nothing."""
