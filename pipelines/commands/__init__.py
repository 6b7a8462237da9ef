"""What do the commands do that run no job: demo, policy, explain, compare, verify, forget, rejected?"""
