"""What the user stated, checked, as a plain record; nothing is compiled here."""
