"""Standard files of linear bilevel problems: MPS with an auxiliary file for the lower level."""
