"""Faults in how workers stop and in how they live through an outage, for the scenarios of servers and networks."""

from __future__ import annotations

from gauntlet.mutation import LUA, Mutation

MUTANTS_OF_OUTAGES = [
    Mutation(
        name="leaves-at-once",
        about="a worker that is asked to end leaves what it runs to the rescue",
        changes=(
            (
                "worker/worker.py",
                "            runtime.stop()\n        else:",
                "            __import__('os')._exit(0)\n        else:",
            ),
        ),
        scenarios=("term",),
        stores=("valkey",),
    ),
    Mutation(
        name="claims-to-the-end",
        about="a worker that is asked to end goes on taking jobs",
        changes=(
            (
                "worker/consumer.py",
                "claiming = not self._stop.is_set() and self._reconciler.certain",
                "claiming = self._reconciler.certain",
            ),
            (
                "worker/consumer.py",
                "begins = self._reconciler.certain and not self._stop.is_set()",
                "begins = self._reconciler.certain",
            ),
        ),
        scenarios=("term",),
        stores=("valkey",),
    ),
    Mutation(
        name="ignores-the-second-signal",
        about="a second signal changes nothing",
        changes=(("worker/worker.py", "            runtime.stop_at_once()\n", "            pass\n"),),
        scenarios=("term",),
        stores=("valkey",),
    ),
    Mutation(
        name="crashes-in-an-outage",
        about="a store that is away is an unexpected error",
        changes=(("worker/service.py", "OUTAGES = (StoreUnavailable, StoreRefused)", "OUTAGES = (StoreRefused,)"),),
        scenarios=("restart", "refuse", "cut", "client-kill", "terminate", "disk"),
    ),
    Mutation(
        name="batches-stay-away",
        about="after an outage nobody asks for the jobs of batch queues any more",
        changes=(
            (
                "worker/consumer.py",
                "            self._demand.refresh()\n            self._settler.put_back",
                "            self._demand._collectors = {}\n            self._settler.put_back",
            ),
        ),
        scenarios=("restart",),
        stores=("valkey",),
    ),
    Mutation(
        name="needs-memory-to-work",
        about="what empties a full server is refused by it",
        changes=(
            (LUA + "shared/base.lua", "local function insist()\n  call('DEL', KEYS[1])", "local function insist()"),
        ),
        scenarios=("full",),
    ),
    Mutation(
        name="always-ready",
        about="probes are not told that the store is away",
        changes=(("worker/health.py", " and not any(s.down_for is not None for s in self.subsystems)", ""),),
        scenarios=("restart", "hang"),
        stores=("valkey",),
    ),
    Mutation(
        name="traceback-per-try",
        about="every try during an outage is logged with its traceback",
        changes=(("logs.py", "first = not self._down and now - self._up_since >= AFTERSHOCK", "first = True"),),
        scenarios=("restart", "refuse"),
        stores=("valkey",),
    ),
    Mutation(
        name="never-pauses",
        about="the next try comes at once, with a line in the log",
        changes=(("worker/service.py", "ceiling * random.uniform(0.5, 1.0)", "0.01"),),
        scenarios=("refuse",),
        stores=("valkey",),
    ),
    Mutation(
        name="trusts-the-script-cache",
        about="a script that was sent along once is not sent along again",
        changes=(
            ("stores/valkey/refusals.py", "class Remedy(StrEnum):", "_sent: set = set()\n\n\nclass Remedy(StrEnum):"),
            (
                "stores/valkey/refusals.py",
                "return Remedy.SEND_THE_SCRIPT\n",
                "again = request.script.digest in _sent\n"
                "            _sent.add(request.script.digest)\n"
                "            return None if again else Remedy.SEND_THE_SCRIPT\n",
            ),
        ),
        scenarios=("scripts", "reset"),
    ),
    Mutation(
        name="waits-for-ever",
        about="a reply is waited for without a limit",
        changes=(
            ("stores/valkey/client.py", '"socket_timeout": timeouts[1]', '"socket_timeout": None'),
            (
                "stores/valkey/async_client.py",
                "self._deadline = Deadline(loop, read)",
                "self._deadline = Deadline(loop, 900.0)",
            ),
        ),
        scenarios=("hang", "blackhole"),
        stores=("valkey",),
    ),
    Mutation(
        name="waits-for-the-database",
        about="a reply is waited for without a limit",
        changes=(("stores/database/options.py", "reply_timeout: float = 15.0", "reply_timeout: float = 900.0"),),
        scenarios=("blackhole",),
        stores=("postgres",),
    ),
    Mutation(
        name="forgets-what-failed",
        about="outcomes of a round that failed are not tried again",
        changes=(("worker/consumer.py", "            self._settler.put_back(settlements)\n", ""),),
        scenarios=("cut", "client-kill", "replies"),
        stores=("valkey",),
    ),
    Mutation(
        name="sends-twice",
        about="a round whose reply was lost is sent again as it was",
        changes=(("stores/valkey/rounds.py", "*args, again=False)", "*args)"),),
        scenarios=("replies",),
        stores=("valkey",),
    ),
    Mutation(
        name="never-compares",
        about="a worker never asks what the store says it holds",
        changes=(("worker/reconciler.py", "return time.monotonic() >= self._due_at", "return False"),),
        scenarios=("replies",),
        stores=("valkey",),
    ),
    Mutation(
        name="full-is-final",
        about="an outcome that finds the disk full becomes a dead letter",
        changes=(
            (
                "stores/database/session.py",
                "    return StoreUnavailable(text) if _is_passing(error, text) else StoreRefused(text)",
                "    full = 'No space left' in text\n"
                "    return StoreUnavailable(text) if _is_passing(error, text) and not full else StoreRefused(text)",
            ),
            ("worker/isolation.py", "return self._keeper.pace.turned_at > since", "return since > 0"),
        ),
        scenarios=("disk",),
        stores=("postgres",),
    ),
    Mutation(
        name="keeps-the-dead-connection",
        about="a connection that the server ended is used again",
        changes=(
            (
                "stores/database/threads.py",
                "if isinstance(error, OperationalError | InterfaceError) or connection.errors_occurred:",
                "if False:",
            ),
        ),
        scenarios=("terminate",),
    ),
    Mutation(
        name="impatient",
        about="a reply that takes 0.15 s counts as an outage",
        changes=(
            ("stores/valkey/options.py", "read_timeout: float = 5.0", "read_timeout: float = 0.15"),
            ("stores/database/options.py", "reply_timeout: float = 15.0", "reply_timeout: float = 0.15"),
        ),
        scenarios=("slow",),
        stores=("valkey",),
    ),
]
