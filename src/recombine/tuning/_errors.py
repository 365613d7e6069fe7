"""What can go wrong with a search, said in full."""


class StudyError(ValueError):
    """A search that cannot be made as asked; says why, and what to do."""


class StorageError(RuntimeError):
    """A study's storage that cannot be used now: damaged, or held by another process."""


def missing_optuna() -> StudyError:
    """Returns the error that names the extra."""
    return StudyError(
        "`recombine tune` needs Optuna, which is not installed: pip install 'recombine[tune]'"
    )
