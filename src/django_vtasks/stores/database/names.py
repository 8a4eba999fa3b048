"""Names of tables and metadata rows, and text in a form that every column can hold."""

import hashlib

JOBS = "db_queuedtask"
RESULTS = "db_jobresult"
LOCKS = "db_uniquelock"
METADATA = "db_vtaskmetadata"
KEYS = "db_limitkey"
GROUPS = "db_limitgroup"

ALIVE = "worker_alive:"
WORKER = "vtasks_worker:"
PAUSED = "vtasks_paused:"
ROLE = "vtasks_role:"
LAST_RUN = "vtasks_last_run:"
SAMPLES = "vtasks_samples:"

#: Roles that workers of the 3.2 line hold under these names too.
SHARED_ROLES = {"scheduler": "vtasks_scheduler_lock", "rescuer": "vtasks_rescue_lock"}

MAX_LENGTH = 255
CHANNEL = "django_vtasks"
ENDED = "django_vtasks_ended"


#: What PostgreSQL's text cannot hold, and what separates the elements of its arrays on their way.
_UNFIT = frozenset("\0\x1e\x1f")


def column_text(text: str, limit: int = MAX_LENGTH) -> str:
    """The text itself if a column can hold it, else its digest: no two texts become one."""
    if len(text) <= limit and _UNFIT.isdisjoint(text) and (text.isascii() or not _has_surrogates(text)):
        return text
    return _digest(text)


def ascii_text(text: str) -> str:
    """As `column_text`, for columns of which nothing but equality is asked: fits into a table of any encoding."""
    return column_text(text) if text.isascii() else _digest(text)


def metadata_key(prefix: str, name: str) -> str:
    """The key of a metadata row."""
    return prefix + column_text(name, MAX_LENGTH - len(prefix))


def role_key(role: str) -> str:
    """The key of a role's metadata row; the locks of the 3.2 line are roles under their own names."""
    return SHARED_ROLES.get(role) or (role if role in SHARED_ROLES.values() else metadata_key(ROLE, role))


def lock_id(unique_key: str) -> str:
    """The id of the lock of a unique key."""
    return hashlib.sha256(unique_key.encode("utf-8", "surrogatepass")).hexdigest()


def cleaned(text: str) -> str:
    """The text with lone surrogates written out, so that it can be encoded."""
    return text.encode("utf-8", "backslashreplace").decode() if _has_surrogates(text) else text


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
