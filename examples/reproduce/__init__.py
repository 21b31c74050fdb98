"""Tables of five papers, made again with blomodel: ``python -m examples.reproduce TABLE``."""
