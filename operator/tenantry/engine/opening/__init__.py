"""Opening an engine: the owner of its database, a first look at it, and what interrupted work left in its folder."""
