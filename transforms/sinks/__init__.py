"""How do releases, metrics, rejected rows and certificates leave?"""
