"""How is a Flink cluster told what to run, and asked how it goes?"""
