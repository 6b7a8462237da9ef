"""How is a release used: read, laid flat, exported, imputed for models, and asked?"""
