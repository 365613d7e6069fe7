"""Records: what a run leaves behind, on disk as plain files."""

from recombine.results._files import write_atomically as write_atomically
from recombine.results._locks import RunHeldError as RunHeldError
from recombine.results._provenance import Provenance as Provenance, provenance as provenance
from recombine.results._record import (
    FORMAT as FORMAT,
    Record as Record,
    RecordError as RecordError,
    run_hash as run_hash,
)
from recombine.results._store import (
    RecordWarning as RecordWarning,
    RunFolder as RunFolder,
    RunsFolderError as RunsFolderError,
    evidence_folder as evidence_folder,
    read_records as read_records,
)
