"""How NCCL writes: the grammar of its log lines and what is kept of them, for the source `nccl-log`."""
