"""What the server's and the driver's errors mean, in words that say what to do."""

from enum import StrEnum

from ...jobs.errors import QueueError, StoreRefused, StoreUnavailable
from .client import driver
from .endpoints import Endpoint
from .requests import Request

_LATER = {
    "BUSY": "it is running a long script",
    "CLUSTERDOWN": "its cluster is down",
    "LOADING": "it is loading its data",
    "MASTERDOWN": "its primary is down",
    "NOREPLICAS": "it has too few replicas to accept writes",
    "READONLY": "it became a replica",
    "UNBLOCKED": "it became a replica",
    "TRYAGAIN": "the slot of this alias is being moved to another node",
    "ASK": "the slot of this alias is being moved to another node",
    "MOVED": "the slot of this alias was moved to another node",
}
_NEVER = {
    "OOM": "it is full (`maxmemory` is reached). Nothing was stored. Raise `maxmemory`, or let workers catch up",
    "NOPERM": "its ACL does not permit this user what the queue needs (docs/PROTOCOL.md lists them)",
    "WRONGPASS": "user name and password are wrong",
    "NOAUTH": "it wants a password and none is configured",
    "WRONGTYPE": "a key under the queue's prefix holds something else: another program uses the same prefix",
    "MISCONF": "it refuses writes because it cannot save to disk",
}


def code_of(error: BaseException) -> str:
    """The word an error reply begins with, as OOM or MOVED; empty for none."""
    text = str(error)
    first = text.split(" ", 1)[0]
    if first in _LATER or first in _NEVER or first == "NOSCRIPT":
        return first
    by_class = _CODES_OF_CLASSES.get(type(error).__name__, "")
    if by_class == "WRONGPASS" and "required" in text:
        return "NOAUTH"
    return by_class or next((code for code in (*_NEVER, *_LATER) if f"-{code} " in text), "")


# The drivers cut the code off where they have a class for it.
_CODES_OF_CLASSES = {
    "OutOfMemoryError": "OOM",
    "NoPermissionError": "NOPERM",
    "ReadOnlyError": "READONLY",
    "BusyLoadingError": "LOADING",
    "TryAgainError": "TRYAGAIN",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "AskError": "ASK",
    "AuthenticationError": "WRONGPASS",
    "AuthenticationWrongNumberOfArgsError": "WRONGPASS",
    "AuthorizationError": "NOAUTH",
    "NoScriptError": "NOSCRIPT",
}


def translate(error: BaseException, endpoint: Endpoint) -> QueueError:
    """What a driver's error means: try again later, or the server said no."""
    code = code_of(error)
    where = f"Valkey at {endpoint}"
    if code in _NEVER:
        return StoreRefused(f"{where} refused: {_NEVER[code]} ({error})")
    if code in _LATER:
        return StoreUnavailable(f"{where} cannot serve this now: {_LATER[code]} ({error})")
    if isinstance(error, driver().timeout_error | TimeoutError):
        return StoreUnavailable(f"{where} did not answer in time ({error})")
    if isinstance(error, driver().response_error):
        return StoreRefused(f"{where} refused: {error}")
    return StoreUnavailable(f"{where} cannot be reached: {error}")


def needs_another_server(error: BaseException) -> bool:
    """Whether the reply means that the command was not run and another node is to be asked."""
    return code_of(error) in ("MOVED", "READONLY")


class Remedy(StrEnum):
    """What makes a failed request worth sending again."""

    SEND_THE_SCRIPT = "the server was restarted or its scripts were flushed"
    ASK_FOR_THE_SERVER = "another server takes our commands now"
    CONNECT_ANEW = "the connection was stale"


def remedy_for(error: BaseException, request: Request) -> Remedy | None:
    """What to do before the request is sent again; None when sending it again is no use or not safe."""
    if isinstance(error, driver().response_error):
        if code_of(error) == "NOSCRIPT":
            return Remedy.SEND_THE_SCRIPT
        return Remedy.ASK_FOR_THE_SERVER if needs_another_server(error) else None
    if isinstance(error, driver().refusals) or code_of(error):
        return None
    return Remedy.CONNECT_ANEW if request.again else None
