"""A changed policy is told by the keys that changed."""

from __future__ import annotations

import dataclasses
from decimal import Decimal

from kanonflow.pipelines.run_records.policy_keys import policy_keys, told_changed
from kanonflow.transforms.secret.seeds import Secret
from tests.small_feeds import SECRET, feed_policy


def test_the_keys_that_differ_are_named_and_no_others() -> None:
    """Keys of the head, fields by name, fields that came or went, their order alone; equal ones are not named."""
    policy = feed_policy()
    before = policy_keys(policy, SECRET)
    assert told_changed(before, policy_keys(policy, SECRET)) == ""
    other = dataclasses.replace(policy, k=4, max_delay_ms=7_200_000)
    assert told_changed(before, policy_keys(other, SECRET)) == " in k, max_delay"
    fields = tuple(
        dataclasses.replace(field, quasi=dataclasses.replace(field.quasi, domain=(Decimal(0), Decimal(99))))
        if field.name == "age" and field.quasi
        else field
        for field in policy.fields
    )
    changed = dataclasses.replace(policy, fields=fields)
    assert told_changed(before, policy_keys(changed, SECRET)) == " in fields.age"
    gone = dataclasses.replace(policy, fields=policy.fields[:-1])
    assert told_changed(before, policy_keys(gone, SECRET)) == f" in fields.{policy.fields[-1].name}"
    turned = dataclasses.replace(policy, fields=policy.fields[::-1])
    assert told_changed(before, policy_keys(turned, SECRET)) == " in the order of fields"


def test_the_digests_are_the_secrets() -> None:
    """Without the secret nobody tries values out; a run of an earlier build kept none, and nothing is said."""
    policy = feed_policy()
    one, other = (policy_keys(policy, secret) for secret in (SECRET, Secret(b"t" * 32)))
    assert not set(one.values()) & set(other.values())
    assert told_changed(None, one) == ""
