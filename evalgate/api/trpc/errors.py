"""Errors of `evalgate.api.trpc`. All are subclasses of `evalgate.core.errors.EvalgateError`."""

from evalgate.core.errors import InvalidInputError, NoVerdictError


class NotFoundError(InvalidInputError, LookupError):
    """The requested eval set, case, metric, evaluator or result does not exist."""


class AlreadyExistsError(InvalidInputError):
    """An eval set, a case or a metric with this name exists already."""


class StorageError(NoVerdictError):
    """The storage of eval sets, metrics or results cannot be read or written."""


class CallbackError(NoVerdictError):
    """A callback raised an exception, returned an object of a wrong type, or set an unknown status."""
