"""How is a partition improved: people in closed classes, cohorts in groups, also under rules for sensitive values?"""
