"""What the user stated, checked: the two levels, followers, and multipliers asked for."""
