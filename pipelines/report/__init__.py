"""How is a run told on a page: to those inside exactly, and to everybody from what is public alone?"""
