"""What is published already, and which release may stand beside it?"""
