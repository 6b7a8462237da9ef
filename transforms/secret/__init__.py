"""Where does secret randomness come from, and where may a secret stand?"""
