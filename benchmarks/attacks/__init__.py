"""Attacks on releases, a file a family. Run as ``python -m benchmarks.attacks [names] [--quick]``.

    identity_and_order.py   does the true record stand out among a slot's members?
    replay.py               does a second publication of a window narrow the first one down?
    predictable_seed.py     can the publisher be run again with every seed?
    known_matches.py        what do c known matches tell about another record?
    linked_rows.py          what do all rows of an individual tell together, and known row counts?
    across_windows.py       who is left when rows are linked from window to window?
    homogeneity.py          what does a release tell about a sensitive value, though not which row is whose?

What they attack is made in ``attacked_feed.py`` by the product's own ``release_window``; what they are compared with
is in ``naive_publishers.py``. ``tests/privacy`` holds the promises as tests; this bench also says what remains where
nothing is promised.
"""
