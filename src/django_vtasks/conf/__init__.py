"""Settings: the `settings` object, and what it says as validated values."""

from .environment import DEFAULTS, ENV_TYPES, Settings, settings
from .problems import InvalidSettings, Problems
from .queues import (
    BATCH_OPTION_KEYS,
    QUEUE_OPTION_KEYS,
    BatchConfig,
    QueueConfig,
    get_batch_queues,
    parse_queues,
    queue_configs,
    queue_names,
    resolve_queue_config,
)
from .schedule import CRON, INTERVAL, SCHEDULE_ENTRY_KEYS, classify_schedule
from .worker import (
    PID,
    QueueOrder,
    WorkerConfig,
    default_result_ttl,
    dlq_cap,
    retention_of,
    retry_defaults,
    settings_problems,
    worker_name,
)

vtasks_settings = settings

__all__ = [
    "BATCH_OPTION_KEYS",
    "CRON",
    "DEFAULTS",
    "ENV_TYPES",
    "INTERVAL",
    "PID",
    "QUEUE_OPTION_KEYS",
    "SCHEDULE_ENTRY_KEYS",
    "BatchConfig",
    "InvalidSettings",
    "Problems",
    "QueueConfig",
    "QueueOrder",
    "Settings",
    "WorkerConfig",
    "classify_schedule",
    "default_result_ttl",
    "dlq_cap",
    "get_batch_queues",
    "parse_queues",
    "queue_configs",
    "queue_names",
    "resolve_queue_config",
    "retention_of",
    "retry_defaults",
    "settings",
    "settings_problems",
    "vtasks_settings",
    "worker_name",
]
