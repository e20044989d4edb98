"""Public data sets: where they come from, fetched and verified (`ssa data fetch`)."""
