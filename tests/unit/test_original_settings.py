"""Every environment variable of the original Queen is a setting, an alias or explained."""

import re
from pathlib import Path

import pytest

from queen import original_settings
from queen.client.config import VARIABLES
from queen.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "original-names.md"
ORIGINAL = re.findall(
    r"\w+",
    """
    ANALYTICS_MIN_COMPLETED ANALYTICS_RECENT_HOURS API_DEFAULT_LIMIT API_DEFAULT_OFFSET
    API_MAX_LIMIT APP_NAME BATCH_INSERT_SIZE BATCH_PUSH_MAX_SIZE_MB BATCH_PUSH_TARGET_SIZE_MB
    CLIENT_POOL_SIZE CLIENT_REQUEST_TIMEOUT CLIENT_RETRY_ATTEMPTS CLIENT_RETRY_BACKOFF
    CLIENT_RETRY_DELAY CORS_ALLOWED_HEADERS CORS_ALLOWED_METHODS CORS_ALLOWED_ORIGINS
    CORS_MAX_AGE DB_CONNECTION_TIMEOUT DB_IDLE_TIMEOUT DB_MAX_RETRIES DB_POOL_SIZE
    DB_QUERY_TIMEOUT DB_STATEMENT_TIMEOUT DEFAULT_BATCH_SIZE
    DEFAULT_COMPLETED_RETENTION_SECONDS DEFAULT_DELAYED_PROCESSING
    DEFAULT_DLQ_AFTER_MAX_RETRIES DEFAULT_DLQ_ENABLED DEFAULT_LEASE_TIME DEFAULT_MAX_SIZE
    DEFAULT_MAX_WAIT_TIME_SECONDS DEFAULT_PRIORITY DEFAULT_RETENTION_ENABLED
    DEFAULT_RETENTION_SECONDS DEFAULT_RETRY_DELAY DEFAULT_RETRY_LIMIT DEFAULT_TIMEOUT
    DEFAULT_TTL DEFAULT_WINDOW_BUFFER ENABLE_LOGGING ENABLE_MESSAGE_COUNTING
    ENABLE_REQUEST_COUNTING EVICTION_BATCH_SIZE EVICTION_INTERVAL FILE_BUFFER_DIR
    FILE_BUFFER_EVENTS_PER_FILE FILE_BUFFER_FLUSH_MS FILE_BUFFER_MAX_BATCH HEALTH_CHECK_ENABLED
    HIGH_PERF HOST LEASE_RECLAIM_INTERVAL LOG_FORMAT LOG_LEVEL LOG_TIMESTAMP
    MAX_RELATED_MESSAGES MAX_TIMEOUT METRICS_ENDPOINT_ENABLED NODE_OPTIONS NUM_WORKERS
    PARTITION_CLEANUP_DAYS PG_DB PG_HOST PG_PASSWORD PG_PORT PG_USER POLL_DB_INTERVAL
    POLL_MAX_INTERVAL POLL_WORKER_INTERVAL PORT QUEEN_BASE_URL QUEEN_CLIENT_LOG
    QUEEN_ENCRYPTION_KEY QUEUE_DEPTH_UPDATE_INTERVAL QUEUE_POLL_INTERVAL
    QUEUE_POLL_INTERVAL_FILTERED RECENT_MESSAGE_WINDOW REDIS_DB REDIS_HOST REDIS_PASSWORD
    REDIS_PORT RELATED_MESSAGE_WINDOW RETENTION_BATCH_SIZE RETENTION_INTERVAL
    SYSTEM_STATS_UPDATE_INTERVAL WORKER_CONCURRENCY WORKER_ID WS_COMPRESSION
    WS_HEARTBEAT_INTERVAL WS_IDLE_TIMEOUT WS_MAX_CONNECTIONS WS_MAX_PAYLOAD_LENGTH
    """,
)
"""All variables in the documents of the original Queen and its queue manager."""


def test_every_variable_is_used_or_explained() -> None:
    read = {*Settings.__struct_encode_fields__, *VARIABLES, "QUEEN_CLIENT_LOG"}
    explained = (
        original_settings.ALIASES.keys() | original_settings.UNUSED | original_settings.FOREIGN
    )
    assert not read & explained
    assert set(ORIGINAL) - read - explained == set()
    assert explained <= set(ORIGINAL)
    assert set(original_settings.ALIASES.values()) <= set(Settings.__struct_encode_fields__)


def test_every_variable_is_documented() -> None:
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)` \|", text, flags=re.MULTILINE)
    assert sorted(rows) == sorted(ORIGINAL)
    for original, name in original_settings.ALIASES.items():
        assert re.search(rf"^\| `{original}` \| .*`{name}`", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("DB_QUERY_TIMEOUT", "12000", "db_statement_timeout_ms", 12_000),
        ("DEFAULT_DLQ_ENABLED", "false", "default_dlq", False),
        ("POLL_MAX_INTERVAL", "500", "safety_poll_ms", 500.0),
        ("WS_COMPRESSION", "6", "ws_compression", True),
        ("WS_COMPRESSION", "0", "ws_compression", False),
        ("LOG_LEVEL", "warn", "log_level", "warning"),
    ],
)
def test_a_variable_with_an_equivalent_takes_effect(
    variable: str, text: str, field: str, value: object
) -> None:
    settings = Settings.from_environ({variable: text})
    assert getattr(settings, field) == value
    name = original_settings.ALIASES.get(variable, variable)
    assert (name, str(value), "environment") in settings.shown({variable: text})


def test_a_settings_own_name_wins_and_the_alias_is_reported() -> None:
    environ = {"DB_QUERY_TIMEOUT": "1000", "DB_STATEMENT_TIMEOUT": "2000"}
    assert Settings.from_environ(environ).db_statement_timeout_ms == 2000
    assert original_settings.unused(environ) == {
        "DB_QUERY_TIMEOUT": "DB_STATEMENT_TIMEOUT is set and wins."
    }


def test_only_variables_that_are_set_are_reported() -> None:
    assert original_settings.unused({}) == {}
    assert original_settings.unused({"DB_QUERY_TIMEOUT": "1", "REDIS_HOST": "redis"}) == {}
    assert list(original_settings.unused({"BATCH_INSERT_SIZE": "2000"})) == ["BATCH_INSERT_SIZE"]
