"""What a person reads: text and pictures."""
