"""What the memory store knows of a job that has not ended."""

from dataclasses import dataclass

from ...jobs.model import Claim, Job, JobRecord, JobState, Lease, Progress, Running


@dataclass(slots=True, kw_only=True)
class Stored:
    """A job that has not ended: its bytes, and where it is. `lease` is set while it is leased, `parked` while it is
    ready and its limit is not."""

    raw: bytes
    queue: str
    job: Job
    defect: str | None = None
    state: JobState = JobState.READY
    parked: bool = False
    rank: int = 0
    ready_at: float = 0.0
    lease: Lease | None = None
    started_at: float = 0.0
    progress: Progress | None = None
    cancel_requested: bool = False

    @property
    def place(self) -> tuple[float, int]:
        """Where it is among ready jobs."""
        return -self.job.priority, self.rank

    def claim(self) -> Claim:
        """The job with the lease it has."""
        if self.lease is None:
            raise ValueError(f"job {self.job.id} is not leased")
        job = None if self.defect else self.job
        return Claim(
            lease=self.lease, raw=self.raw, queue=self.queue, started_at=self.started_at, job=job, defect=self.defect
        )

    def record(self) -> JobRecord:
        """What is told of the job."""
        running = Running(worker_id=self.lease.owner, started_at=self.started_at) if self.lease else None
        return JobRecord(job=self.job, state=self.state, running=running, progress=self.progress)
