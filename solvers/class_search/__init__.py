"""How are closed classes improved, also under rules for sensitive values?"""
