"""From one tape to another, or to facts about it: derivatives, ranges, degrees, directions."""
