"""The objects that all parts of the engine share."""

from typing import NamedTuple, Self

from queen.engine.caches.catalogue import Catalogue
from queen.engine.caches.key_windows import KeyWindows
from queen.engine.caches.segments import SegmentCache
from queen.engine.encryption.sealer import Sealer
from queen.engine.metrics.counters import Counters
from queen.engine.runtime.combiner import Combiner
from queen.engine.runtime.signals import Signals
from queen.settings import Settings
from queen.store.store import Store


class Core(NamedTuple):
    """One database, with the caches and counters of this process."""

    store: Store
    settings: Settings
    signals: Signals
    catalogue: Catalogue
    segments: SegmentCache
    counters: Counters
    sealer: Sealer
    combiner: Combiner
    windows: KeyWindows

    @classmethod
    def of(cls, store: Store, settings: Settings) -> Self:
        signals = Signals(store, settings)
        catalogue = Catalogue(store, settings)
        segments = SegmentCache(settings.segment_cache_bytes)
        sealer = Sealer(store, settings, catalogue)
        # The caches subscribe first, because other subscribers read them.
        signals.on_queues_changed.subscribe(catalogue.forget_options)
        signals.on_caches_stale.subscribe(catalogue.forget_options)
        signals.on_caches_stale.subscribe(segments.clear)
        signals.on_server_replaced.subscribe(catalogue.forget)
        signals.on_server_replaced.subscribe(sealer.forget)
        counters = Counters(settings.metrics_max_queues)
        combiner = Combiner(store.messages)
        windows = KeyWindows(store.messages, settings.dedup_memory_bytes)
        signals.on_server_replaced.subscribe(windows.forget)
        return cls(
            store, settings, signals, catalogue, segments, counters, sealer, combiner, windows
        )
