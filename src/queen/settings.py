"""What an operator may set, frozen: read once and passed down."""

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds and pace of one process. The defaults are measured; see docs/decisions."""

    max_payload_bytes: Count = 2**20
    max_items: Count = 10_000
    max_json_depth: Count = 64
    max_batch: Count = 10_000
    max_pop_partitions: Count = 1_000
    max_waiters: Count = 10_000
    max_lease_seconds: Seconds = 43_200
    max_delay_seconds: Seconds = 31_536_000
    max_message_headers: Count = 64
    max_message_header_bytes: Count = 8 * 2**10
    max_name_bytes: Count = 255
    max_partition_bytes: Count = 512
    max_error_bytes: Count = 16 * 2**10

    segment_max_messages: Count = 10_000
    segment_max_bytes: Count = 4 * 2**20
    """A flush closes a segment at this size. One payload always fits."""
    flush_max_bytes: Count = 2**19
    max_queued_bytes: Count = 256 * 2**20
    """Pushes that wait for a flush; one more is refused as overloaded."""
    max_queued_requests: Count = 50_000
    """Requests of one verb that wait for a flush."""

    segment_cache_bytes: Count = 64 * 2**20
    catalogue_entries: Count = 200_000
    catalogue_seconds: Seconds = 5.0
    """How long options of a queue are believed when no notification says otherwise."""

    push_lanes: Count = 2
    pop_lanes: Count = 2
    ack_lanes: Count = 2

    safety_poll_seconds: Seconds = 2.0
    notify_debounce_seconds: Seconds = 0.01
    due_search_seconds: Seconds = 0.25
    """How often a busy group looks for expired leases before it looks for new messages."""
    full_search_seconds: Seconds = 10.0
    """How often a search by time ignores the low-water mark."""
