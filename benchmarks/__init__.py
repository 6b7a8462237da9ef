"""One file a question; each states its protocol. Run as ``python -m benchmarks.main_job`` from the repository's root.

    main_job.py     how long does the whole command take, and on what; what does it release; does it verify?
    adult_loss.py   how much information does the search keep on the field's standard data set?
    paper_tables.py does S0's local search do what its paper says, and what does ours make of the same starts?
    warm_start.py   what is the previous window worth to the next one, and what do kept classes guarantee?
    classes.py      what does the search on closed classes gain over its start?
    stages.py       where does the time of one window go?
    row_cost.py     what does a row cost beside the search, and what did it cost in an earlier commit?
    attacks/        how often does an attacker find the right record?

The data sets come from the folder named by KANONFLOW_DATA; a benchmark says what it skips without them. Results go to
``benchmarks/results`` as text for people and JSON for programs. A benchmark is never a timed test.
"""
