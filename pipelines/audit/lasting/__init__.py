"""Are people in cohorts once and for good, and are groups whole cohorts?"""
