"""Records: what a run leaves behind, on disk as plain files."""

from recombine.results._files import write_atomically as write_atomically
from recombine.results._locks import RunHeldError as RunHeldError
from recombine.results._provenance import Provenance as Provenance
from recombine.results._provenance import provenance as provenance
from recombine.results._record import (
    FORMAT as FORMAT,
)
from recombine.results._record import (
    Record as Record,
)
from recombine.results._record import (
    RecordError as RecordError,
)
from recombine.results._record import (
    run_hash as run_hash,
)
from recombine.results._store import (
    RecordWarning as RecordWarning,
)
from recombine.results._store import (
    RunFolder as RunFolder,
)
from recombine.results._store import (
    RunsFolderError as RunsFolderError,
)
from recombine.results._store import (
    evidence_folder as evidence_folder,
)
from recombine.results._store import (
    read_records as read_records,
)
