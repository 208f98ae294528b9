"""What went wrong, from what the ranks of a server have left: journals, wait boards, logs and stack dumps."""
