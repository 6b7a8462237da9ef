"""How does a job run, go on after a stop, and end: ``anonymize``, ``stream``, ``stop``?"""
