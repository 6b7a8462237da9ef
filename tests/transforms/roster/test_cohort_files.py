"""Files of a roster: what is none is said so, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.roster.cohort_files import groups_file, groups_of_file
from kanonflow.transforms.roster.window_groups import LastGroups


def test_groups_survive_the_file() -> None:
    """As they were."""
    last = LastGroups(np.array([3, 5, 9]), np.array([0, 0, 1]))
    read = groups_of_file(groups_file(last))
    assert (read.cohorts.tolist(), read.groups.tolist()) == ([3, 5, 9], [0, 0, 1])


def test_a_column_whose_name_is_no_text_is_a_damaged_file() -> None:
    """Arrow reads such a file, and Python cannot spell the name."""
    data = groups_file(LastGroups(np.array([3]), np.array([0])))
    damaged = data.replace(b"cohort", b"coh\xffrt")
    assert damaged != data
    with pytest.raises(StateError, match="file of groups"):
        groups_of_file(damaged)
