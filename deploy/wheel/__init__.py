"""How a wheel comes to carry its kernels as machine code: the list of them, and their compilation for two CPUs."""
