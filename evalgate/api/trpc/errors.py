"""Errors of `evalgate.api.trpc`. All are subclasses of `evalgate.core.errors.EvalgateError`."""

from evalgate.core.errors import InvalidInputError, NoVerdictError


class NotFoundError(InvalidInputError, LookupError):
    """Error of a request for an eval set, case, metric, evaluator or result that does not exist."""


class AlreadyExistsError(InvalidInputError):
    """Error of an attempt to add an eval set, a case or a metric with a name that exists already."""


class StorageError(NoVerdictError):
    """Error in reading or writing stored eval sets, metrics or results."""


class CallbackError(NoVerdictError):
    """Error of a callback that raised an exception, returned a wrong type, or set an unknown status."""
