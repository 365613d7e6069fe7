"""What there is to learn: generators, environments and data sets, as pure functions and arrays."""
