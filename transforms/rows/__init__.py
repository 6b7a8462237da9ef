"""What is a row: checked against the policy, split by partition and window, carried from step to step?"""
