"""What do rows tell of whose they are beside what is released: their payload, and what people keep?"""
