"""What the texts of several tools have in common: forms of addresses and states, NCCL's lines, known messages."""
