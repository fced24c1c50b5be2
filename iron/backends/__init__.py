"""Code generators, one package or file a target family; none of them touches a device."""
