"""Answers as text, HTML, LaTeX and pictures."""
