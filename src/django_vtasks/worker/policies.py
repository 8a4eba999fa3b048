"""Which policy decides about a job: what its task, its queue and the settings say, looked up once."""

from collections.abc import Mapping

from ..conf import WorkerConfig
from ..jobs.errors import TaskNotFound
from ..jobs.model import Claim
from ..jobs.transitions import Policy
from ..tasks.loading import load_task
from ..tasks.options import options_of


class Policies:
    """The policy per task and queue. A job whose task is not in this code gets the worker's own."""

    def __init__(self, fallback: Policy, result_ttls: Mapping[str, float]) -> None:
        self._fallback = fallback
        self._result_ttls = result_ttls
        self._known: dict[tuple[str, str], Policy] = {}

    def of(self, claim: Claim) -> Policy:
        """The policy for a claimed job. Raises nothing."""
        job = claim.job
        if job is None:
            return self._of_queue(claim.queue)
        key = (job.func, claim.queue)
        policy = self._known.get(key)
        return policy if policy is not None else self._look_up(key)

    def _look_up(self, key: tuple[str, str]) -> Policy:
        func, queue = key
        try:
            policy = options_of(load_task(func), queue).policy
        except TaskNotFound:
            return self._of_queue(queue)
        self._known[key] = policy
        return policy

    def _of_queue(self, queue: str) -> Policy:
        ttl = self._result_ttls.get(queue, self._fallback.result_ttl)
        return Policy(max_attempts=self._fallback.max_attempts, result_ttl=ttl)


def policies_of(config: WorkerConfig) -> Policies:
    """The policies of a worker that is configured like this."""
    fallback = Policy(max_attempts=config.max_attempts, result_ttl=config.result_ttl)
    return Policies(fallback, {q.name: q.result_ttl for q in config.queues if q.result_ttl is not None})
