"""What does a run keep beside its releases, so that only the same run goes on, and only from where it was?"""
