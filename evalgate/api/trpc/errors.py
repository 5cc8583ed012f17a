"""Errors of `evalgate.api.trpc`. All are subclasses of `evalgate.core.errors.EvalgateError`."""

from evalgate.core.errors import InvalidInputError, NoVerdictError


class NotFoundError(InvalidInputError, LookupError):
    """Error of a request for an eval set, case, metric, evaluator or result that does not exist."""


class AlreadyExistsError(InvalidInputError):
    """Error of an attempt to add an eval set, a case or a metric with a name that exists already."""


class StorageError(NoVerdictError):
    """Error of a storage of eval sets, metrics or results that cannot be read or written."""


class CallbackError(NoVerdictError):
    """Error of a callback: an exception, an object of a wrong type that it returned, or an unknown status."""
