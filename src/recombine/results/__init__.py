"""Records: what a run leaves behind, on disk as plain files."""

from recombine.results._files import write_atomically as write_atomically
from recombine.results._locks import RunHeldError as RunHeldError
from recombine.results._provenance import (
    Provenance as Provenance,
    package_versions as package_versions,
    provenance as provenance,
)
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
from recombine.results._studies import (
    StudyTable as StudyTable,
    Trial as Trial,
    read_study as read_study,
    studied_row as studied_row,
    study_row as study_row,
    write_study as write_study,
)
