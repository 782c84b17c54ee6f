"""The forms of every kernel: an independent oracle, the kernel as it is written, and compiled."""

from typing import Any

from headrace.records.compaction import offset_map, packed_batches, segment_writer
from headrace.records.kernels import (
    batches,
    compaction_mapping,
    compaction_packed,
    compaction_rewriting,
    compaction_runs,
    compiler,
    hashes,
    produce,
    records,
)
from tests.records import oracles
from tests.records.oracles import batches as _batches
from tests.records.oracles import compaction_mapping as _mapping
from tests.records.oracles import compaction_packed as _packed
from tests.records.oracles import compaction_rewriting as _rewriting
from tests.records.oracles import compaction_runs as _runs
from tests.records.oracles import produce as _produce
from tests.records.oracles import records as _records

COMPACTION = (compaction_mapping, compaction_packed, compaction_rewriting, compaction_runs)
MODULES = (records, produce, hashes, batches, *COMPACTION)
ORACLES = (_records, _produce, _batches, _mapping, _packed, _rewriting, _runs)

__all__ = ["COMPILED", "FORMS", "MODULES", "ORACLE", "WRITTEN", "oracles", "use"]


class Form:
    """Kernels by their names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._made: dict[str, Any] = {}

    def __repr__(self) -> str:
        return self.name

    def __getattr__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._find(name)
        return self._made[name]

    def _find(self, name: str) -> Any:
        if self.name == "compiled" and name == "produce_run":
            return compiler.compiled_run()
        places = ORACLES if self.name == "oracle" else MODULES
        found = [vars(module)[name] for module in places if name in vars(module)]
        if not found:
            raise AttributeError(name)
        return compiler.face(found[0]) if self.name == "compiled" else found[0]


ORACLE, WRITTEN, COMPILED = Form("oracle"), Form("written"), Form("compiled")
FORMS = (ORACLE, WRITTEN, COMPILED)


def use(monkeypatch: Any, form: Form) -> None:
    """Have compaction call the kernels of this form."""
    for module in (offset_map, packed_batches, segment_writer):
        monkeypatch.setattr(module, "in_use", lambda kernel: getattr(form, kernel.__name__))
