"""How do releases, metrics, rejected rows and matching records leave?"""
