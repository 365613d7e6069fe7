"""Errors as sentences and exit codes."""

import contextlib
import sys
import warnings
from collections.abc import Iterator

FAILED, BAD_USAGE, STOPPED = 1, 2, 130


@contextlib.contextmanager
def explain_errors() -> Iterator[None]:
    """Prints our own errors and warnings without a traceback, and exits with their code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        try:
            yield
        except Exception as error:
            code = _exit_code(error)
            if code is None:
                raise
            print(f"recombine: {_sentence(error)}", file=sys.stderr)
            raise SystemExit(code) from None
        except KeyboardInterrupt:
            print("recombine: stopped at once; the last checkpoint is kept", file=sys.stderr)
            raise SystemExit(STOPPED) from None


def _sentence(error: Exception) -> str:
    """Returns what an error says: of the system's own errors the words, and which file it was."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error.args[0] if error.args else error)


def _exit_code(error: Exception) -> int | None:
    """Returns the code for an error that explains itself, `None` for one that does not."""
    from recombine.experiments import PluginError, SettingsError
    from recombine.report import ComparisonError
    from recombine.results import RunHeldError, RunsFolderError

    ours = PluginError | SettingsError | ComparisonError | RunsFolderError
    if isinstance(error, ours) or type(error) is LookupError:
        return BAD_USAGE
    if isinstance(error, RunHeldError | OSError):
        return FAILED
    if "recombine.engines" in sys.modules:
        from recombine.engines import ClusterError, RunFailedError, SweepStoppedError

        if isinstance(error, RunFailedError):
            return FAILED
        if isinstance(error, ClusterError):
            return BAD_USAGE
        if isinstance(error, SweepStoppedError):
            return STOPPED
    if "recombine.tuning" in sys.modules:
        from recombine.tuning import StorageError, StudyError

        if isinstance(error, StudyError):
            return BAD_USAGE
        if isinstance(error, StorageError):
            return FAILED
    if "recombine.training" in sys.modules:
        from recombine.training import Interrupted

        if isinstance(error, Interrupted):
            return STOPPED
    return None


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"recombine: {message}", file=sys.stderr)
