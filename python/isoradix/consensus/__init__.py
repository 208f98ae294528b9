"""What carries the bytes of consensus between ranks: planes, and who is where."""
