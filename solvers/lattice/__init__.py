"""Full-domain generalization: every attribute is published at one level of its hierarchy, few rows not at all."""
