"""How do rows go out: under which boxes, with whose payload, past which gate?"""
