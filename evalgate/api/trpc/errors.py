"""The errors of this interface; all of them are `evalgate.core.errors.EvalgateError`."""

from evalgate.core.errors import InvalidInputError, NoVerdictError


class NotFoundError(InvalidInputError, LookupError):
    """An eval set, a case, a metric, an evaluator or a result does not exist."""


class AlreadyExistsError(InvalidInputError):
    """An eval set, a case or a metric with this name exists already."""


class StorageError(NoVerdictError):
    """The place where eval sets, metrics or results are kept cannot be reached or written."""


class CallbackError(NoVerdictError):
    """A callback raised an exception, returned an object of a wrong type, or set an unknown status."""
