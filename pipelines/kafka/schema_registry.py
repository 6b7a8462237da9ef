"""A schema registry as Confluent's speaks: schemas by id, the latest of a subject, and a subject's new schema.

The client is confluent-kafka's own: TLS, passwords and OAuth are its business. What it raises becomes one of two errors
here, which repeat nothing of what was sent or answered. It follows no redirect, so a password goes to one host only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from kanonflow.pipelines.kafka.avro_references import self_contained
from kanonflow.schemas.errors import InputError

PAUSE_SECONDS = 0.2
PREFIX = "schema.registry."
"""Before the name of a property of the registry's client, in the file of ``config``."""

_PROPERTIES = frozenset(
    {
        "basic.auth.user.info",
        "proxy",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "bearer.auth.credentials.source",
        "bearer.auth.token",
        "bearer.auth.issuer.endpoint.url",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
        "bearer.auth.logical.cluster",
        "bearer.auth.identity.pool.id",
    }
)
_CREDENTIALS = ("basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret")
_SOURCES = ("OAUTHBEARER", "STATIC_TOKEN")
_UNKNOWN = (40401, 40402, 40403)  # subject, version, schema
_MOST_REFERENCES = 200

_Answer = TypeVar("_Answer")


class RegistryUnavailableError(Exception):
    """The registry does not answer, or not as a registry: try again later. No row is at fault."""

    exit_code = 3


class SchemaRegistry:
    """A client that remembers the schemas it has seen: what an id means never changes.

    properties: of confluent-kafka's registry client, without ``PREFIX`` (``property_mistake`` says which there are).
    tries, timeout_s: how often it asks, and how long it waits each time.
    Raises InputError: the client library is missing or refuses the properties.
    """

    def __init__(
        self,
        url: str,
        properties: Mapping[str, str] | None = None,
        *,
        tries: int = 5,
        timeout_s: float = 2.0,
    ) -> None:
        self._tries = tries
        self._known: dict[int, dict[str, Any] | str] = {}
        ours = {"url": url, "timeout": timeout_s, "max.retries": 0, "cache.latest.ttl.sec": 0}
        self._library = _library()
        try:
            self._client = self._library.SchemaRegistryClient({**(properties or {}), **ours})
        except Exception as error:  # it raises ValueError, TypeError, OSError, ssl.SSLError...
            raise InputError(
                f"the schema registry's client refuses the properties {PREFIX}* ({type(error).__name__}): a file that"
                " is not there or not readable, or a value of another form"
            ) from None

    def schema(self, schema_id: int) -> dict[str, Any] | str:
        """The Avro schema of that id, or a sentence that says why there is none. Raises RegistryUnavailableError."""
        if schema_id not in self._known:
            answer = self._ask(lambda: self._client.get_schema(schema_id))
            reason = "the schema registry does not know it"
            self._known[schema_id] = reason if answer is None else self._avro(answer)
        return self._known[schema_id]

    def latest(self, subject: str) -> dict[str, Any]:
        """The newest Avro schema of a subject. Raises InputError: it has none; RegistryUnavailableError."""
        answer = self._ask(lambda: self._client.get_latest_version(subject))
        if answer is None:
            raise InputError(
                f"the schema registry has no subject {subject}; register a schema, or give schema=FILE"
            )
        schema = self._avro(answer.schema)
        if isinstance(schema, str):
            raise InputError(f"the schema registry's subject {subject}: {schema}")
        return schema

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """The id of the schema, as the newest version of the subject unless it is there already.

        Raises InputError: the registry refuses it (not compatible with the versions before); RegistryUnavailableError.
        """
        new = self._library.Schema(json.dumps(schema), "AVRO")
        number = self._ask(lambda: self._client.register_schema(subject, new))
        if not isinstance(number, int):
            raise RegistryUnavailableError("it did not answer with an id")
        return number

    def _avro(self, answer: Any) -> dict[str, Any] | str:
        """The schema as one that stands by itself, or why it cannot be used."""
        if (answer.schema_type or "AVRO") != "AVRO":
            return "it is not an Avro schema"
        try:
            schema = json.loads(answer.schema_str)
            references = self._references(answer)
        except (TypeError, ValueError):
            return "it is not readable"
        if isinstance(references, str):
            return references
        if references:
            try:
                schema = self_contained(schema, references)
            except RecursionError:
                return "it is not readable"
        return schema if isinstance(schema, dict) and schema.get("type") == "record" else "it is not a record"

    def _references(self, answer: Any) -> list[Any] | str:
        """What the schema refers to, and what that refers to; or what is not there. Raises ValueError: not JSON."""
        references: dict[tuple[str, int], Any] = {}
        left = list(answer.references or ())
        while left:
            place = left.pop(0)
            key = (place.subject, place.version)
            if key in references:
                continue
            if len(references) == _MOST_REFERENCES:
                return f"it refers to more than {_MOST_REFERENCES} other schemas"
            there = self._ask(lambda key=key: self._client.get_version(*key))  # type: ignore[misc]
            if there is None:
                return "it refers to a schema that the registry does not know"
            references[key] = json.loads(there.schema.schema_str)
            left += there.schema.references or ()
        return list(references.values())

    def _ask(self, question: Callable[[], _Answer]) -> _Answer | None:
        """The answer; None when what is asked for does not exist."""
        for left in reversed(range(self._tries)):
            try:
                return self._ask_once(question)
            except RegistryUnavailableError:
                if not left:
                    raise
                time.sleep(PAUSE_SECONDS)
        return None

    def _ask_once(self, question: Callable[[], _Answer]) -> _Answer | None:
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

        try:
            return question()
        except SchemaRegistryError as error:
            _raise_unless_missing(error)
            return None
        except OAuthTokenError:  # its text may hold what the token's server answered
            raise RegistryUnavailableError(
                f"the schema registry's token cannot be had from {PREFIX}bearer.auth.issuer.endpoint.url"
            ) from None
        except OSError as error:
            raise _silent(error) from None
        except Exception as error:  # of its HTTP library, or of an answer that is no registry's
            if "httpx" in type(error).__module__ or "httpcore" in type(error).__module__:
                raise _silent(error) from None
            raise RegistryUnavailableError("the address answers, but not as a schema registry does") from None


def property_mistake(name: str, value: str) -> str | None:
    """What is wrong with a property of the registry's client, named without ``PREFIX``; it repeats no value."""
    if name not in _PROPERTIES:
        return f"{PREFIX}{name} is not a property of the registry's client; there are {', '.join(sorted(_PROPERTIES))}"
    if name == "bearer.auth.credentials.source" and value not in _SOURCES:
        return f"{PREFIX}{name} is none of {', '.join(_SOURCES)}"
    if name == "basic.auth.user.info" and ":" not in value:
        return f"{PREFIX}{name} is not user:password"
    return None


def plain_text_warning(url: str, properties: Mapping[str, str]) -> str | None:
    """A sentence for a password that travels unencrypted; None when none does."""
    if not any(properties.get(name) for name in _CREDENTIALS):
        return None
    issuer = properties.get("bearer.auth.issuer.endpoint.url", "https://")
    if "http" not in (urlsplit(url).scheme.lower(), urlsplit(issuer).scheme.lower()):
        return None
    return (
        "The schema registry, or where its tokens come from, is asked over http://, so the password in config=FILE"
        " travels in plain text; take https://."
    )


def _library() -> Any:
    try:
        import confluent_kafka.schema_registry
    except ImportError:
        raise InputError("a schema registry needs a client library: pip install kanonflow[kafka]") from None
    return confluent_kafka.schema_registry


def _silent(error: Exception) -> RegistryUnavailableError:
    return RegistryUnavailableError(f"the schema registry does not answer ({type(error).__name__})")


def _raise_unless_missing(error: Any) -> None:
    """Return when the registry says that there is no such thing: another server's 404 does not say so."""
    status = error.http_status_code
    if status in (401, 403):
        raise InputError(
            f"the schema registry refuses access ({status});"
            f" give {PREFIX}basic.auth.user.info, or {PREFIX}bearer.auth..., with config=FILE"
        ) from None
    if status in (409, 422):
        raise InputError(
            f"the schema registry refuses the schema ({status}): not compatible with the subject's earlier ones"
        ) from None
    if status == 404 and error.error_code in _UNKNOWN:
        return
    if 300 <= status < 400:
        raise RegistryUnavailableError(
            f"the schema registry sends to another address ({status}), which is not followed: a password would go"
            " along; give the registry's own address"
        ) from None
    raise RegistryUnavailableError(f"the schema registry answers with an error ({status})") from None
