"""Are these releases, over this input, what the policy promises? Judged without the code that made them."""
