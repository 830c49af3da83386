"""Processors: typed functions that run the jobs of a name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import (
    Any,
    Final,
    Generic,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from queen import errors
from queen.client.consume.dispatch import is_async
from queen.client.durations import Duration
from queen.client.payloads import Codec
from queen.jobs.chains import link_of
from queen.jobs.handle import JobHandle
from queen.jobs.job import Job
from queen.jobs.options import (
    Backoff,
    BackoffRule,
    JobOptions,
    LinkOptions,
    durations_of,
    rule_of,
)
from queen.wire.jobs import Link

T = TypeVar("T")
R = TypeVar("R")
X = TypeVar("X")

DEFAULT_ATTEMPTS: Final = 3


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a processor runs jobs without their own options."""

    attempts: int = DEFAULT_ATTEMPTS
    backoff: BackoffRule = Backoff()
    timeout_seconds: float | None = None
    result_seconds: float | None = None
    is_process: bool = False

    @classmethod
    def of(
        cls,
        *,
        attempts: int = DEFAULT_ATTEMPTS,
        backoff: BackoffRule | Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        result_ttl: Duration | None = None,
        process: bool = False,
    ) -> "Settings":
        if attempts < 1:
            raise errors.BadRequest("a job has at least one attempt")
        return cls(
            attempts=attempts,
            backoff=Backoff() if backoff is None else rule_of(backoff),
            is_process=process,
            **durations_of({"timeout": timeout, "result_ttl": result_ttl}),
        )


class Processor(Generic[T, R, X]):
    """
    A function that runs jobs of one name. Calling the processor calls the function.

    ``T`` is the data, ``R`` the function's return type, ``X`` the result after awaiting it.
    """

    __name__: str

    def __init__(
        self,
        add_job: Callable[..., Awaitable[JobHandle[Any]]],
        queue: str,
        name: str | None,
        function: Callable[[Job[T]], R],
        settings: Settings,
    ) -> None:
        self._add_job = add_job
        self.queue = queue
        """The queue of the jobs."""
        self.name = name
        """None runs every name in the queue that has no processor."""
        self.function = function
        """The decorated function."""
        self.settings = settings
        """Attempts, backoff and time limit."""
        self.is_async = is_async(function)
        """Whether the function is a coroutine function."""
        if self.is_async and settings.is_process:
            raise errors.BadRequest("process=True needs a plain function, not a coroutine function")
        data_type, result_type = _types_of(function)
        self.codec: Codec[T] = Codec(data_type)
        """Decodes the data."""
        self.result_codec: Codec[X] = Codec(result_type)
        """Decodes the result."""
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(function, attribute):
                setattr(self, attribute, getattr(function, attribute))

    def __call__(self, job: Job[T]) -> R:
        return self.function(job)

    async def add(self, data: T, **options: Unpack[JobOptions]) -> JobHandle[X]:
        """Add a job for this processor."""
        return await self._add_job(
            self.queue, self._own_name(), data, codec=self.result_codec, **options
        )

    def s(self, data: Any = msgspec.UNSET, **fields: Any) -> Link:  # noqa: ANN401 - of the data
        """
        Return a job for a chain, from its data or from the fields of its data.

        Without either, its data is the result of the previous job. For options, use `link`.
        """
        if fields:
            if data is not msgspec.UNSET:
                raise errors.BadRequest("pass the data or its fields, not both")
            data = fields
        return link_of(self.queue, self._own_name(), data, {})

    def link(self, data: Any = msgspec.UNSET, **options: Unpack[LinkOptions]) -> Link:  # noqa: ANN401
        """Return a job for a chain, with options."""
        return link_of(self.queue, self._own_name(), data, options)

    def _own_name(self) -> str:
        if self.name is None:
            raise errors.BadRequest(
                f"this processor runs every job of {self.queue}: use add_job with a name"
            )
        return self.name

    def __repr__(self) -> str:
        return f"Processor({self.queue}/{self.name or '*'})"


class Decorator:
    """The result of `QueueManager.processor`: it registers a function as a processor."""

    def __init__(self, register: Callable[[Callable[..., Any]], Processor[Any, Any, Any]]) -> None:
        self._register = register

    # The result of a coroutine function is the result of its coroutine.
    @overload
    def __call__(
        self, function: Callable[[Job[T]], Awaitable[X]]
    ) -> "Processor[T, Awaitable[X], X]": ...
    @overload
    def __call__(self, function: Callable[[Job[T]], X]) -> "Processor[T, X, X]": ...
    def __call__(self, function: Callable[..., Any]) -> Processor[Any, Any, Any]:
        return self._register(function)


def _types_of(function: Callable[..., Any]) -> tuple[type[Any] | None, type[Any] | None]:
    """Return the types of data and result from the annotations of the function."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):
        # Names that only a type checker resolves, or not a function: any JSON.
        return None, None
    result = hints.pop("return", None)
    data: Any = None
    for hint in hints.values():
        if get_origin(hint) is Job:
            data = get_args(hint)[0]
        break
    if data in (Any, type(None)) or isinstance(data, TypeVar):
        data = None
    if result in (Any, type(None)):
        result = None
    return cast("type[Any] | None", data), cast("type[Any] | None", result)
